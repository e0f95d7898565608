// A survey within a budget: All-in, repaired, for people at the quantiles of a law of costs. One privacy loss for all who
// are taken; with k of them the largest that the money covers, so that each is paid the k-th part of it.
(() => {
  "use strict";
  const VARIANCE = { spread: 1 / 12, yes: 1 / 4 }, DISTANCE = 1 / 12, NOISE = 2; // of numbers from 0 to 1: hdpm_lib.Task

  // Cost at a probability, for a law given by the knots of its quantile function.
  function quantile([p, c], u) {
    let j = 1;
    while (p[j] <= u) j++;
    return c[j - 1] + ((u - p[j - 1]) / (p[j] - p[j - 1])) * (c[j] - c[j - 1]);
  }

  // hdpm_lib.designs.comparison.law_of: as many costs in each of about the root of n intervals.
  function lawOf(costs) {
    const sorted = [...costs].sort((a, b) => a - b), n = sorted.length, parts = Math.round(Math.sqrt(n));
    const ends = Array.from({ length: parts + 1 }, (_, k) => {
      const place = k * (1 / parts) * (n - 1), below = Math.min(Math.floor(place), n - 2);
      return sorted[below] + (place - below) * (sorted[below + 1] - sorted[below]);
    });
    const edges = [...new Set(ends)], last = edges.length - 1;
    return [edges.map((e, k) => (k === last ? 1 : sorted.filter((c) => c < e).length / n)), edges];
  }

  function plan(money, people, law, variance) {
    let best = { error: Infinity };
    for (let k = 1; k <= people; k++) {
      const cost = quantile(law, (k - 0.5) / people), sampling = Math.sqrt(variance / k), noise = (Math.sqrt(NOISE) * cost) / money;
      const error = Math.hypot(sampling, noise);
      if (error < best.error * (1 - 1e-12)) best = { taken: k, loss: money / (k * cost), sampling, noise, error };
    }
    return best;
  }

  hdpm.survey = { quantile, lawOf, plan };

  hdpm.explorers.survey = ({ money, people, answers, costs, pasted }, laws) => {
    const B = Number(money), n = Number(people), quotes = pasted.split(/[\s,;]+/).filter(Boolean).map(Number), { digits } = hdpm;
    if (!(B >= 1 && B <= 1e6)) return { refused: true, sentence: "Give an amount of money from 1 to 1000000 euros, as digits only." };
    if (!(Number.isInteger(n) && n >= 2 && n <= 5000)) return { refused: true, sentence: "Give a number of people from 2 to 5000." };
    if (costs === "pasted" && (quotes.length > 1000 || quotes.some((c) => !(c > 0 && c <= 1e6)) || new Set(quotes).size < 2)) {
      return { refused: true, sentence: "Paste 2 to 1000 costs, each above 0, that are not all the same." };
    }
    const law = costs === "pasted" ? lawOf(quotes) : laws[costs], variance = VARIANCE[answers];
    const planned = (part) => plan(part * B, n, law, variance), { taken, loss, sampling, noise, error } = planned(1);
    const all = Math.sqrt(variance / n), guess = Math.sqrt(DISTANCE);
    const odds = loss < 10 ? `the odds about one answer change ${digits(Math.exp(loss))}-fold at most` : "that protects nobody";
    const verdict = error > guess ? `That is no better than the guess 0.5 without any data, ${digits(guess)}.`
      : `Half the money would make it ${digits(planned(0.5).error)}, twice the money ${digits(planned(2).error)}.`;
    return {
      sentence: `Ask all ${people} people what a privacy loss of ${digits(loss)} would cost them (${odds}). When all have named a price, expect to take ${taken === n ? `all ${taken}` : `the ${taken} who ask least`}, `
        + `and to pay each ${digits(B / taken)} euros. The mean is then off by ${digits(error)} on a scale from 0 to 1 (root mean square). ${verdict}`,
      caption: `${people} people, ${money} euros; errors are root mean squares`,
      rows: [
        ["this plan", String(taken), sampling, noise, error],
        ["the same people without noise", String(taken), sampling, 0, sampling],
        ["all people without noise", people, all, 0, all],
      ],
      figure: () => {
        const plans = Array.from({ length: 41 }, (_, i) => 10 ** ((i - 20) / 20)).map((part) => [part * B, planned(part)]);
        const curve = (name, f) => ({ name, points: plans.map(([m, found]) => [m, f(found)]) });
        return {
          x: "money (euros)", y: "error of the mean", log: "xy", at: B,
          alt: "Error of the mean by the money: of the plan, of the same people without noise, and of all people without noise.",
          curves: [curve("this plan", (p) => p.error), curve("the same people without noise", (p) => p.sampling), curve("all people without noise", () => all)],
        };
      },
    };
  };
})();
