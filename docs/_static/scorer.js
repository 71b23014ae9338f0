// Search: pages of the guide come before others, and design pages, benchmarks and the changelog after them.
const pageWeights = [[/^(guide\/|quickstart|install)/, 20], [/^(design\/|benchmarks|style|CHANGELOG)/, -15]];
var Scorer = {
  score: (result) => {
    const [docname, , , , score] = result;
    return score + pageWeights.reduce((sum, [pattern, weight]) => sum + (pattern.test(docname) ? weight : 0), 0);
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
