"""`completion`: the scripts that make TAB work in bash, zsh and fish.

Not Typer's own: in zsh that one does nothing at the first TAB of each shell, and it evaluates what it is answered.
These take lines of words and descriptions, as data. `dispatcher.cli.tab` answers.
"""

from __future__ import annotations

from dispatcher.cli.render import out
from dispatcher.errors import BadInput

_BASH = r"""
_dispatcher() {
    local word
    COMPREPLY=()
    while IFS= read -r word; do
        COMPREPLY+=("$word")
    done < <("${1/#\~/$HOME}" __complete bash "$COMP_CWORD" "${COMP_WORDS[@]:1}" 2>/dev/null)
}
complete -o default -F _dispatcher dispatcher
"""

_ZSH = r"""
#compdef dispatcher
_dispatcher() {
    local -a found
    found=("${(@f)$(${~words[1]} __complete zsh $((CURRENT - 1)) "${(@Q)words[2,-1]}" 2>/dev/null)}")
    if [[ -n $found[1] ]]; then
        _describe -V dispatcher found
    else
        _files
    fi
}
if [[ $funcstack[1] == _dispatcher ]]; then
    _dispatcher "$@"
else
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
    compdef _dispatcher dispatcher
fi
"""

_FISH = r"""
function __dispatcher_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    $words[1] __complete fish (count $words) $words[2..-1] "$current" 2>/dev/null
end
complete --command dispatcher --no-files --condition 'count (__dispatcher_complete) >/dev/null' \
    --arguments '(__dispatcher_complete)' --keep-order
"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def print_script(shell: str) -> None:
    if shell not in SCRIPTS:
        raise BadInput(f"there is no completion for {shell!r}", hint="one of " + ", ".join(SCRIPTS))
    out(SCRIPTS[shell].strip())
