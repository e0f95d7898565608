// Filters of the ledger. Without this script the whole table is shown. State lives in the query, ledger.html?paper=...
(() => {
  "use strict";
  const form = document.querySelector(".hdpm-filters");
  const table = document.querySelector(".hdpm-claims");
  if (!form || !table) return;
  const names = ["paper", "kind", "verdict", "q"];
  const rows = [...table.tBodies[0].rows].map((row) => ({ row, text: row.textContent.toLowerCase() }));

  function read(query) {
    const state = new URLSearchParams(query);
    for (const name of names) form.elements[name].value = state.get(name) ?? "";
    // A value that no option has leaves a select empty: show everything then.
    for (const select of form.querySelectorAll("select")) if (select.selectedIndex < 0) select.value = "";
  }

  function apply() {
    const words = form.elements.q.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const { row, text } of rows) {
      const keep =
        ["paper", "kind", "verdict"].every((n) => !form.elements[n].value || form.elements[n].value === row.dataset[n]) &&
        words.every((word) => text.includes(word));
      row.hidden = !keep;
      shown += keep;
    }
    form.querySelector("output").textContent = `showing ${shown} of ${rows.length}`;
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

  // A link to a row that the filters hide shows everything.
  function visit() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target || !target.closest("tr[hidden]")) return;
    form.reset();
    apply();
    remember();
    target.scrollIntoView();
  }

  form.addEventListener("input", () => { apply(); remember(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(() => { apply(); remember(); }));
  addEventListener("hashchange", visit);
  for (const link of document.querySelectorAll(".hdpm-summary a")) {
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      read(link.getAttribute("href").slice(1));
      apply();
      remember();
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
