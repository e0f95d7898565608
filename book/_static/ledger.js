// The ledger's search and filters. Without this script the whole table is shown. State lives in the query:
// ledger.html?paper=khalili&verdict=corrected&strength=proof&q=theorem+5; a link to a claim, ledger.html#khalili-thm5, shows its row.
(() => {
  "use strict";
  const form = document.querySelector(".hdpm-filters");
  const table = document.querySelector(".hdpm-claims");
  if (!form || !table) return;
  const names = ["paper", "kind", "verdict", "strength", "order", "q"];
  const PAGE = 30;
  const body = table.tBodies[0];
  const plain = (words) => words.toLowerCase().replace(/\s+/g, " ").trim();
  const squares = document.querySelector(".hdpm-squares");
  const rows = [...body.rows].map((row, k) => ({
    row,
    square: squares.children[k],
    id: row.id.toLowerCase(),
    kind: row.dataset.kind,
    verdicts: ["", row.dataset.verdict, ...row.dataset.groups.split(" ")],
    decided: !["not testable", "pending"].includes(row.dataset.verdict),
    place: plain(row.querySelector(".hdpm-where").textContent),
    statement: plain(row.cells[1].textContent),
    text: plain(row.textContent),
  }));
  const more = document.createElement("button");
  more.type = "button";
  more.className = "hdpm-more";
  table.after(more);
  let limit = PAGE;

  // A phrase counts only with nothing but its end beside it: "theorem 5" is not in "theorem 52".
  const holds = (text, phrase) => {
    for (let at = text.indexOf(phrase); at >= 0; at = text.indexOf(phrase, at + 1)) {
      if (!/[\p{L}\d]/u.test(text[at - 1] ?? "") && !/[\p{L}\d]/u.test(text[at + phrase.length] ?? "")) return true;
    }
    return false;
  };

  // The longest part of a query, of two words or more, that stands in a text as it is.
  const together = (text, words) => {
    for (let count = words.length; count > 1; count--)
      for (let at = 0; at + count <= words.length; at++) {
        const phrase = words.slice(at, at + count).join(" ");
        if (holds(text, phrase)) return phrase;
      }
    return "";
  };

  // Words of a question that say nothing about its answer.
  const EMPTY = new Set("a an and are as at be by can do does for from has have how if in is it its of on or that the there this to true was what when which who why will with".split(" "));

  // How well a row answers: its id, its place in the paper as one phrase, its kind, then words by where they stand; and a
  // claim that was decided before one that cannot be, a theorem before others. 0 is not at all.
  function score(entry, query, words) {
    if (!query) return 1;
    if (entry.id === query) return 1000;
    const found = words.map((w) => (holds(entry.place, w) ? 4 : entry.id.includes(w) ? 3 : entry.statement.includes(w) ? 2 : entry.text.includes(w) ? 1 : 0));
    if (found.includes(0)) return 0;
    const phrase = holds(entry.place, query) ? query : together(entry.place, words);
    const placed = phrase ? (100 * phrase.length) / query.length + (20 * phrase.length) / entry.place.length : 0;
    const whole = (entry.id.includes(query) ? 50 : 0) + (words.includes(entry.kind) ? 10 : 0);
    const answers = (entry.decided ? 2 : 0) + (entry.kind === "theorem" ? 1 : 0);
    return found.reduce((a, b) => a + b, 0) / words.length + placed + whole + answers;
  }

  function apply() {
    const query = plain(form.elements.q.value);
    const given = query.replace(/[?!,;:"]/g, "").split(" ").filter(Boolean), said = given.filter((w) => !EMPTY.has(w));
    const words = said.length ? said : given;
    const kept = [];
    rows.forEach((entry, order) => {
      const here = entry.verdicts.includes(form.elements.verdict.value) && ["paper", "kind", "strength"].every((n) => ["", entry.row.dataset[n]].includes(form.elements[n].value));
      const value = here ? score(entry, query, words) : 0;
      entry.row.hidden = true;
      if (value) kept.push({ row: entry.row, value, order: form.elements.order.value ? Number(entry.row.dataset.place) : order });
    });
    kept.sort((a, b) => (form.elements.order.value ? 0 : b.value - a.value) || a.order - b.order);
    body.append(...kept.map(({ row }) => row));
    kept.slice(0, limit).forEach(({ row }) => { row.hidden = false; });
    const lit = new Set(kept.map(({ row }) => row));
    rows.forEach(({ row, square }) => square.classList.toggle("hdpm-out", !lit.has(row)));
    const shown = Math.min(limit, kept.length);
    form.querySelector("output").textContent = `showing ${shown} of ${kept.length}` + (kept.length < rows.length ? ` found, of ${rows.length}` : "");
    more.hidden = shown === kept.length;
    more.textContent = `Show ${Math.min(PAGE, kept.length - shown)} more`;
    return kept.map(({ row }) => row);
  }

  function read(query) {
    const state = new URLSearchParams(query);
    for (const name of names) form.elements[name].value = state.get(name) ?? "";
    // A value that no option has leaves a select empty: show everything then.
    for (const select of form.querySelectorAll("select")) if (select.selectedIndex < 0) select.value = "";
  }

  function remember() {
    const state = new URLSearchParams(location.search);
    for (const name of names) {
      if (form.elements[name].value) state.set(name, form.elements[name].value);
      else state.delete(name);
    }
    const query = state.toString();
    try {
      history.replaceState(null, "", location.pathname + (query ? `?${query}` : "") + location.hash);
    } catch {
      // some browsers do not let a page on disk change its address; the filters work all the same
    }
  }

  function change() {
    limit = PAGE;
    apply();
    remember();
  }

  // A link to a row that is not shown: drop the filters if they hide it, and go on to its page.
  function visit() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target || !body.contains(target) || !target.hidden) return;
    let order = apply();
    if (!order.includes(target)) {
      read("");
      remember();
      order = apply();
    }
    limit = PAGE * Math.ceil((order.indexOf(target) + 1) / PAGE);
    apply();
    target.scrollIntoView();
  }

  // The squares: a list of options, of which one is pointed at; a click or Enter goes to its claim.
  const said = document.querySelector(".hdpm-square");
  let here = 0;
  const point = (k) => {
    rows[here].square.classList.remove("hdpm-here");
    here = Math.max(0, Math.min(k, rows.length - 1));
    const { row, square } = rows[here];
    square.classList.add("hdpm-here");
    squares.setAttribute("aria-activedescendant", square.id);
    said.textContent = `${row.querySelector(".hdpm-where").textContent}: ${row.dataset.verdict}`;
  };
  const go = () => {
    if (location.hash === `#${rows[here].row.id}`) history.replaceState(null, "", location.pathname + location.search);
    location.hash = rows[here].row.id;
  };
  squares.tabIndex = 0;
  squares.setAttribute("role", "listbox");
  squares.setAttribute("aria-label", "Claims, a square each: arrows choose one, Enter goes to it");
  rows.forEach(({ row, square }) => {
    square.id = `square-${row.id}`;
    square.setAttribute("role", "option");
    square.ariaLabel = `${row.id}: ${row.dataset.verdict}`;
  });
  const at = (square) => rows.findIndex((entry) => entry.square === square);
  said.textContent = "Each square is a claim: point at one, or go through them by the arrows.";
  squares.addEventListener("pointerover", ({ target }) => at(target) >= 0 && point(at(target)));
  squares.addEventListener("click", ({ target }) => { if (at(target) >= 0) { point(at(target)); go(); } });
  squares.addEventListener("focus", () => point(here));
  squares.addEventListener("keydown", (event) => {
    const line = rows.filter(({ square }) => square.offsetTop === rows[0].square.offsetTop).length;
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: line, ArrowUp: -line, Home: -rows.length, End: rows.length }[event.key];
    if (step) point(here + step);
    else if (event.key === "Enter") go();
    else return;
    event.preventDefault();
  });

  form.addEventListener("input", change);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(change));
  more.addEventListener("click", () => {
    const next = apply()[limit];
    limit += PAGE;
    apply();
    next.querySelector("a").focus();
  });
  addEventListener("hashchange", visit);
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) return;
    event.preventDefault();
    form.elements.q.focus();
    form.elements.q.select();
  });
  for (const link of document.querySelectorAll(".hdpm-summary a, .hdpm-verdicts a")) {
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      read(link.getAttribute("href").slice(1));
      change();
      form.scrollIntoView({ block: "start" });
      form.elements.paper.focus({ preventScroll: true });
    });
  }

  // The first reading must not depend on what the browser kept in the form.
  read(location.search);
  form.hidden = false;
  apply();
  visit();
})();
