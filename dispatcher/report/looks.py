"""How the page looks and what its script does. Kept apart, so that `page` is about what it says.

Text has a contrast of at least 4.5:1 on its ground in both schemes; the three colours of the charts differ in
lightness, too, and each has its count in words beside it.
"""

from __future__ import annotations

STYLE = """
:root { --ground: #ffffff; --card: #f3f5f7; --ink: #1b1f24; --soft: #57606a; --line: #d0d7de; --link: #0550ae;
  --done: #1a7f4b; --quota: #e0a100; --failed: #b42318; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #0f1318; --card: #1a2027; --ink: #e6edf3; --soft: #9aa7b4; --line: #323b45; --link: #79c0ff;
    --done: #3fb97a; --quota: #f2cc60; --failed: #ff7b72; }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; max-width: 84rem; padding: 1rem clamp(.75rem, 3vw, 2rem) 3rem; background: var(--ground);
  color: var(--ink); font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; margin: .5rem 0 0; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .4rem; }
p { margin: .2rem 0 .6rem; color: var(--soft); max-width: 60rem; }
small { color: var(--soft); font-size: .85rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 10rem), 1fr)); gap: .75rem;
  margin: 1rem 0; }
.tiles div { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .6rem .8rem; }
.tiles dt { color: var(--soft); font-size: .9rem; }
.tiles dd { margin: 0; }
.tiles b { display: block; font-size: 1.5rem; line-height: 1.3; font-variant-numeric: tabular-nums; }
.chart svg { display: block; width: 100%; background: var(--card); }
.chart > svg { height: 12rem; border-bottom: 1px solid var(--line); }
rect.done { fill: var(--done); } rect.quota { fill: var(--quota); } rect.failed { fill: var(--failed); }
.legend span::before { content: ""; display: inline-block; width: .8em; height: .8em; margin: 0 .35em 0 0;
  border-radius: .15em; }
.legend span { margin-right: 1em; white-space: nowrap; }
.legend .done::before { background: var(--done); } .legend .quota::before { background: var(--quota); }
.legend .failed::before { background: var(--failed); }
.ends { display: flex; justify-content: space-between; font-size: .85rem; max-width: none; }
.scale { font-size: .85rem; margin: 0; }
.bars { list-style: none; margin: 0; padding: 0; }
.bars li { margin: .5rem 0; }
.bars svg { height: .8rem; border-radius: .2rem; }
.bars .name { font-weight: 600; }
.bars .count { color: var(--soft); font-size: .9rem; }
.wide { overflow-x: auto; border: 1px solid var(--line); border-radius: .5rem; }
.wide:focus-visible, button:focus-visible, input:focus-visible { outline: 2px solid var(--link); outline-offset: 1px; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem; border-bottom: 1px solid var(--line);
  overflow-wrap: normal; }
td:not(.n) { max-width: 26rem; overflow-wrap: break-word; }
td.w { min-width: 12rem; overflow-wrap: anywhere; }
tbody tr:last-child td { border-bottom: 0; }
thead th { background: var(--card); white-space: nowrap; }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
th button { all: unset; cursor: pointer; font: inherit; font-weight: 600; color: var(--link); }
th button:focus-visible { outline: 2px solid var(--link); }
th[aria-sort] button::after { content: " \\2191"; }
th[aria-sort="descending"] button::after { content: " \\2193"; }
label { display: block; margin: 0 0 .5rem; color: var(--soft); }
input { font: inherit; color: var(--ink); background: var(--ground); border: 1px solid var(--soft);
  border-radius: .3rem; padding: .3rem .5rem; width: min(100%, 24rem); display: block; }
footer { margin-top: 2rem; }
@media print { .wide { overflow: visible; } label { display: none; } }
"""

SCRIPT = """
(function () {
  'use strict';
  var order = new Intl.Collator(undefined, { numeric: true });
  function value(row, place) {
    var cell = row.cells[place];
    return cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v);
  }
  function sort(table, head) {
    var down = head.getAttribute('aria-sort') !== 'descending';
    var place = head.cellIndex, body = table.tBodies[0];
    var rows = Array.from(body.rows).map(function (row) { return [value(row, place), row]; });
    rows.sort(function (a, b) {
      if (a[0] === '' || b[0] === '') { return (a[0] === '') - (b[0] === ''); }
      var found = typeof a[0] === 'number' && typeof b[0] === 'number' ? a[0] - b[0]
        : order.compare(String(a[0]), String(b[0]));
      return down ? -found : found;
    });
    table.querySelectorAll('th').forEach(function (one) { one.removeAttribute('aria-sort'); });
    head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
    var all = document.createDocumentFragment();
    rows.forEach(function (pair) { all.appendChild(pair[1]); });
    body.appendChild(all);
  }
  document.querySelectorAll('table').forEach(function (table) {
    table.querySelectorAll('thead th').forEach(function (head) {
      var button = document.createElement('button');
      button.type = 'button';
      button.textContent = head.textContent;
      button.addEventListener('click', function () { sort(table, head); });
      head.textContent = '';
      head.appendChild(button);
    });
  });
  var section = document.getElementById('tasks-list');
  if (!section) { return; }
  var label = document.createElement('label'), input = document.createElement('input');
  label.textContent = 'Show only tasks that contain';
  input.type = 'search';
  label.appendChild(input);
  section.insertBefore(label, section.querySelector('.wide'));
  var rows = Array.from(section.querySelectorAll('tbody tr')).map(function (row) {
    return [row, row.textContent.toLowerCase()];
  });
  input.addEventListener('input', function () {
    var wanted = input.value.toLowerCase();
    rows.forEach(function (pair) { pair[0].hidden = pair[1].indexOf(wanted) < 0; });
  });
})();
"""
