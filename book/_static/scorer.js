// How the site's search ranks what it finds, where Sphinx's own numbers put lists of functions before what explains them.
// Sphinx puts this into its own script, which wants a `var`.
var Scorer = {
  score: ([page, , anchor, , score]) => {
    if (page.startsWith("book/reference/experiments")) return score - 20;
    if (page.startsWith("book/reference/") && anchor) return score - 8;
    return score + (page.startsWith("book/use/") ? 1 : 0);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
