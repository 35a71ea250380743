# ruff: noqa: E501  # tables of names
"""Programs of which the name alone, or their verb, says what they do."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from dispatcher.policy.known.judged import FINE, Judged
from dispatcher.policy.shell import QUOTED, UNKNOWN, Command

ALWAYS: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("ssh", "sftp", "ftp", "telnet", "nc", "ncat", "netcat", "socat", "rclone", "mosh", "lftp", "tftp",
                     "sendmail", "mail", "mailx", "mutt", "msmtp", "swaks", "ansible", "ansible-playbook", "cap",
                     "heroku", "vercel", "netlify", "flyctl", "fly", "wrangler", "firebase", "serverless", "sls", "sam",
                     "eb", "surge", "now", "twine", "hub", "croc", "magic-wormhole", "wormhole", "ngrok", "cloudflared",
                     "gsutil", "azcopy", "s3cmd", "mc", "doctl", "linode-cli", "oc", "nomad", "vault", "fastlane",
                     "goreleaser", "semantic-release", "np", "release-it", "mike"),
                    ("leaves", "talks to other machines")),
    **dict.fromkeys(("shred", "wipefs", "srm", "blkdiscard", "fdisk", "parted", "sgdisk", "dropdb", "shutdown", "reboot",
                     "halt", "poweroff", "init", "telinit", "userdel", "deluser", "trash-empty", "wipe", "rimraf",
                     "del-cli"),
                    ("destroys", "cannot be undone")),
}  # fmt: skip

# verbs that only look; with `None` as the key's list every verb is fine but those in the second one
VERBS: Mapping[str, tuple[frozenset[str] | None, frozenset[str]]] = {
    name: (None if looks is None else frozenset(looks.split()), frozenset(acts.split()))
    for name, looks, acts in (
        ("kubectl", "get describe logs version explain top api-resources api-versions cluster-info config diff wait", ""),
        ("helm", "template lint list ls get show search history status version env dependency repo create package", ""),
        ("terraform", "init plan validate fmt show output version providers graph console get test", ""),
        ("tofu", "init plan validate fmt show output version providers graph console get test", ""),
        ("pulumi", "preview version whoami about plugin", ""),
        ("cdk", "synth diff ls list doctor version init", ""),
        ("gh", "status version help browse", ""),
        ("glab", "version help", ""),
        ("aws", "help configure --version", ""),
        ("gcloud", "version help info", ""),
        ("az", "version help", ""),
        ("docker", None, "push login logout prune rmi"),
        ("podman", None, "push login logout prune rmi"),
        ("buildah", None, "push login"), ("skopeo", None, "copy delete sync login"), ("crane", None, "push copy delete"),
        ("npm", None, "publish unpublish deprecate adduser login logout owner token dist-tag access star hook team org"),
        ("pnpm", None, "publish unpublish deprecate login owner dist-tag"),
        ("yarn", None, "publish login logout owner tag npm"),
        ("bun", None, "publish"), ("deno", None, "publish deploy"), ("jsr", None, "publish"), ("lerna", None, "publish"),
        ("cargo", None, "publish yank login owner"), ("gem", None, "push yank signin owner"),
        ("poetry", None, "publish"), ("uv", None, "publish"), ("hatch", None, "publish"), ("flit", None, "publish"),
        ("pdm", None, "publish"), ("mvn", None, "deploy release:perform release:prepare"), ("gradle", None, "publish"),
        ("gradlew", None, "publish"), ("dotnet", None, "push"), ("nuget", None, "push delete"),
        ("dart", None, "publish"), ("flutter", None, "publish"), ("mix", None, "hex.publish"), ("hex", None, "publish"),
        ("luarocks", None, "upload"), ("conda", None, "upload"), ("anaconda", None, "upload"), ("vsce", None, "publish"),
        ("hg", None, "push email"), ("svn", None, "commit ci import delete copy move lock propset"), ("jj", None, "push"),
        ("bzr", None, "push"), ("fossil", None, "push sync"), ("sl", None, "push"), ("gt", None, "submit push"),
        ("openssl", None, "s_client s_time"),
        ("systemctl", "status show list-units list-unit-files is-active is-enabled cat", ""),
        ("crontab", "-l", ""), ("at", "-l", ""),
        ("zfs", "list get", ""), ("zpool", "list status get", ""), ("lvremove", "", ""), ("vgremove", "", ""),
    )
}  # fmt: skip
_GH_LOOKS = frozenset({"view", "list", "diff", "checks", "status", "watch", "search", "download"})


def verb(name: str, rest: Sequence[str]) -> Judged:
    looks, acts = VERBS[name]
    plain = [word for word in rest if not word.startswith("-")]
    if not plain and looks is not None and not (set(rest) & looks) and any(word.startswith("-") for word in rest):
        harmless = all(word in ("--version", "--help", "-h", "-V") for word in rest)
        return FINE if harmless else (("destroys",), f"{name} {' '.join(rest)}")
    if any(UNKNOWN in word or QUOTED in word for word in plain[:1]):
        return ("unclear",), f"what {name} does cannot be told"
    if looks is None:
        found = next((word for word in plain[:3] if word in acts), None)
        return (("leaves",), f"{name} {found}") if found else FINE
    if not plain or set(rest) & looks & {"-l", "--version"}:
        return FINE
    verb = plain[0]
    if name in ("gh", "glab") and len(plain) > 1 and plain[1] in _GH_LOOKS:
        return FINE
    if name in ("aws", "gcloud", "az") and any(re.match(r"(describe|list|get|show|ls)\b", word) for word in plain[1:4]):
        return FINE
    return FINE if verb in looks else (("leaves",), f"{name} {' '.join(plain[:2])}")


def dispatcher(rest: Sequence[str], _: Command) -> Judged:
    """A worker that answers for the person, or changes what it may do."""
    plain = [word for word in rest if not word.startswith("-")]
    if any(word in ("approve", "deny", "trust", "approvals", "release") for word in plain):
        return ("answers",), f"dispatcher {plain[0]} is for a person"
    return (("unclear",), "which command of dispatcher cannot be told") if any(UNKNOWN in w for w in rest) else FINE
