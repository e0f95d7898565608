// Ridge regression with a limit for each person: what the methods lose in a population where everything is known. The
// calibrations are those of hdpm_lib.learners.ridge and jorgensen; features are uniform on the unit cube, a label is the
// mean of its features.
(() => {
  "use strict";
  const sum = (values) => values.reduce((a, b) => a + b, 0);
  const SHARES = [0.34, 0.43, 0.23];

  // How far a record moves the estimate, over its weight, by Theorem C.4 and by the sharper bound.
  const paper = (penalty, R) => ((2 * R) / penalty) * (1 + R * Math.min(1 / Math.sqrt(penalty), R / penalty));
  function sharp(penalty, R) {
    const s = Math.min(Math.sqrt(penalty), R);
    return ((2 * R) / penalty) * (1 + (0.5 * R * s) / (s * s + penalty));
  }

  // Mean squared error of predictions: of the penalty alone, and of the noise.
  function loss(rate, penalty, d) {
    const moment = 1 / 12 + d / 4; // of features in the direction of the truth
    return [(moment * (penalty / (moment + penalty)) ** 2) / d, (d * (d + 1)) / (3 * rate ** 2)];
  }

  // Rate of the noise of each method, for groups of people with their limits.
  function rates(people, limits, penalty, d) {
    const R = Math.sqrt(d), groups = SHARES.map((share) => share * people), most = Math.max(...limits);
    const c = paper(penalty, R), own = sum(groups.map((k, i) => k * limits[i]));
    const kept = sum(groups.map((k, i) => (k * Math.expm1(limits[i])) / Math.expm1(most)));
    return {
      "the strictest limit for all": (people * Math.min(...limits)) / c,
      "people drawn by lot": (kept * most) / c,
      "a limit for each": own / c,
      "a limit for each, sharper bound": own / sharp(penalty, R),
    };
  }

  hdpm.ridge = { paper, sharp, loss, rates };

  const PENALTIES = Array.from({ length: 81 }, (_, i) => 10 ** (i / 20 - 2));

  hdpm.explorers.ridge = ({ people, strict, middle, lax, penalty, features }) => {
    const limits = [strict, middle, lax].map(Number), d = Number(features), lambda = Number(penalty);
    const at = (l) => Object.entries(rates(Number(people), limits, l, d));
    const rows = at(lambda).map(([name, rate]) => [name, d / rate, ...loss(rate, lambda, d), sum(loss(rate, lambda, d))]);
    const [[, , , strictest], , [, , bias, added, both]] = rows, zero = (1 / 12 + d / 4) / d;
    const curves = rows.map(([name], i) => ({ name, points: PENALTIES.map((l) => [l, sum(loss(at(l)[i][1], l, d))]) }));
    const least = curves.map(({ points }) => points.reduce((a, b) => (b[1] < a[1] ? b : a))), [best, lowest] = least[2].map((x) => hdpm.digits(x));
    return {
      sentence: `With a limit for each, predictions have a mean squared error of ${hdpm.digits(both)}: ${hdpm.digits(bias)} because of the penalty, `
        + `${hdpm.digits(added)} because of the noise. With the strictest limit for all, the noise adds ${hdpm.digits(strictest)}. `
        + `Without any data the answer 0 for everybody has ${hdpm.digits(zero)}, the answer one half ${hdpm.digits(1 / (12 * d))}; the best penalty, ${best}, has ${lowest}.`,
      caption: `Errors for labels from 0 to 1; ${people} people, penalty ${penalty}, features: ${features}`,
      rows,
      figure: () => ({
        x: "penalty", y: "mean squared error of predictions", log: "x", at: lambda, range: [0, 2 * Math.max(...least.map(([, e]) => e))],
        alt: "Error of predictions against the penalty, a curve for each method.",
        curves,
      }),
    };
  };
})();
