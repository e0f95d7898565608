// The table of all designs, redrawn for the market that the reader chooses. Every number is in the page, as the library
// computed it; nothing is computed here but the order. Without this script the table of one market is shown.
(() => {
  "use strict";
  const root = document.querySelector(".hdpm-explorer");
  if (!root) return;
  const form = root.querySelector("form"), table = root.querySelector("table"), said = root.querySelector(".hdpm-winner");
  const data = JSON.parse(root.querySelector('script[type="application/json"]').textContent);
  const { correlations, budgets, spreads } = data;
  const WORST = correlations.length, MONEY = WORST + 1, OFF = MONEY + 5;   // places in a row

  const digits = (x) => (x === 0 ? "0" : x >= 1000 ? String(x) : x.toPrecision(3));

  function make(tag, text, name) {
    const made = document.createElement(tag);
    made.textContent = text;
    if (name) made.className = name;
    return made;
  }

  function line({ name, error, off, rest }, mark, share) {
    const row = make("tr", "", mark === "best" ? "hdpm-best" : "");
    const head = make("th", name);
    head.scope = "row";
    if (mark) head.append(" ", make("span", mark, "hdpm-mark"));
    const first = make("td", digits(error)), bar = make("span", "", "hdpm-bar");
    bar.style.width = `${(100 * share).toFixed(1)}%`;
    first.append(bar);
    row.append(head, first, make("td", off.toFixed(2)), ...rest.map((x) => make("td", digits(x))));
    return row;
  }

  function sentence(markets) {
    const [best, ...others] = markets, least = digits(best.error);
    if (best.name === data.nothing) return `No market is better than buying nothing, error ${least}.`;
    const spread = (a) => a.error * a.off;
    const close = others.filter((a) => a.error - best.error <= (2 * Math.hypot(spread(a), spread(best))) / 100);
    const names = close.length > 2 ? `${close.length} others` : close.map((a) => a.name).join(" and ");
    return `Least error of all markets: ${best.name}, ${least}.` + (names && ` Within two standard errors of it: ${names}.`);
  }

  function draw() {
    const place = (name) => Number(form.elements[name].value);
    const worst = form.elements.yardstick.value === "worst";
    const at = (place("sellers") * spreads.length + place("spread")) * budgets.length + place("budget");
    const error = worst ? WORST : place("correlation");
    const rows = data.frames[at].map((row, i) => (
      { name: data.designs[i], error: row[error], off: row[OFF + error], rest: row.slice(MONEY, OFF) }));
    rows.sort((a, b) => a.error - b.error);
    const markets = rows.filter((row) => row.name !== data.known);
    const nothing = rows.find((row) => row.name === data.nothing).error;
    const mark = (row) => (row === markets[0] ? "best" : row.name === data.known ? "benchmark" : "");
    table.tBodies[0].replaceChildren(...rows.map((row) => line(row, mark(row), Math.min(1, row.error / nothing))));
    for (const [name, values] of [["budget", budgets], ["correlation", correlations]]) {
      const input = form.elements[name], text = String(values[place(name)]);
      input.setAttribute("aria-valuetext", text);
      input.parentElement.querySelector("output").textContent = text;
    }
    form.elements.correlation.disabled = worst;
    const hints = form.querySelector("#hdpm-hint");
    hints.textContent = hints.dataset[worst ? "worst" : "population"];
    const what = worst ? "error on the worst data" : `population error at correlation ${correlations[error]}`;
    table.caption.textContent = `${data.sellers[place("sellers")]} sellers, costs from 1 to ${spreads[place("spread")]}, `
      + `budget ${budgets[place("budget")]}: ${what}`;
    said.textContent = sentence(markets);
  }

  form.reset();  // some browsers keep what was chosen before
  const remember = hdpm.cited(form, "explore-market");
  form.addEventListener("input", draw);
  form.addEventListener("change", remember);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  draw();
})();
