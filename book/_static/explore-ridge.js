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
      "the strictest for all": (people * Math.min(...limits)) / c,
      "drawn by lot": (kept * most) / c,
      "her own limit": own / c,
      "her own, sharper bound": own / sharp(penalty, R),
    };
  }

  hdpm.ridge = { paper, sharp, loss, rates };

  hdpm.explorers.ridge = ({ people, strict, middle, lax, penalty, features }) => {
    const limits = [strict, middle, lax].map(Number), d = Number(features), found = rates(Number(people), limits, Number(penalty), d);
    const all = (rate, lambda) => sum(loss(rate, lambda, d));
    const rows = Object.entries(found).map(([name, rate]) => [name, rate, d / rate, ...loss(rate, Number(penalty), d), all(rate, Number(penalty))]);
    const ratio = rows[0][3 + 1] / rows[2][3 + 1];
    const penalties = Array.from({ length: 81 }, (_, i) => 10 ** (-1 + i / 20));
    return {
      sentence: `With a limit for each the noise adds ${hdpm.digits(rows[2][4])} to the error, `
        + (ratio > 1 ? `${hdpm.digits(ratio)} times less than if all are treated as the strictest.` : "as much as if all are treated as the strictest."),
      caption: `${people} people, penalty ${penalty}, ${features} features`,
      rows,
      figure: () => ({
        x: "penalty", y: "error of predictions", log: "xy", at: Number(penalty),
        alt: "Error of predictions against the penalty: with little penalty the noise dominates, with much of it the penalty itself; the curves of the methods lie apart on the left and meet on the right.",
        curves: Object.keys(found).map((name) => ({ name, points: penalties.map((l) => [l, all(rates(Number(people), limits, l, d)[name], l)]) })),
      }),
    };
  };
})();
