// How the site's search ranks what it finds: recipes first, lists of all functions last. Sphinx builds it in.
const Scorer = {
  score: ([page, , , , score]) => score + (page.startsWith("book/use/") ? 6 : page === "book/reference/experiments" ? -15 : 0),
  objNameMatch: 11,
  objPartialMatch: 4,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 25,
  partialTitle: 12,
  term: 5,
  partialTerm: 2,
};
