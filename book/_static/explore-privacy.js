// Is it private? A number between 0 and 1 is released with Laplace noise; somebody guesses from the release which of
// two neighbouring data sets it came from. The bounds are those of hdpm_lib.audits.bounds, at delta 0.
(() => {
  "use strict";

  // Logarithm of the Gamma function (Lanczos), and the regularised incomplete Beta function (continued fraction).
  const lanczos = [0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059, 12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7];
  function lgamma(z) {
    const x = z - 1, t = x + 7.5;
    return 0.5 * Math.log(2 * Math.PI) + (x + 0.5) * Math.log(t) - t + Math.log(lanczos.reduce((a, c, i) => a + (i ? c / (x + i) : c), 0));
  }
  function beta(x, a, b) {
    if (x <= 0) return 0;
    if (x >= 1) return 1;
    if (x > (a + 1) / (a + b + 2)) return 1 - beta(1 - x, b, a);
    const front = Math.exp(a * Math.log(x) + b * Math.log1p(-x) - (lgamma(a) + lgamma(b) - lgamma(a + b))) / a;
    const kept = (v) => (Math.abs(v) < 1e-300 ? 1e-300 : v);
    let c = 1, d = 1 / kept(1 - ((a + b) * x) / (a + 1)), f = d;
    for (let m = 1; m < 100000; m++) {
      const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
      const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
      let step = 1;
      for (const term of [even, odd]) {
        d = 1 / kept(1 + term * d);
        c = kept(1 + term / c);
        step *= c * d;
      }
      f *= step;
      if (Math.abs(step - 1) < 1e-15) break;
    }
    return front * f;
  }

  const expit = (t) => 1 / (1 + Math.exp(-t));
  const above = (k, n, p) => (k >= n ? 0 : k < 0 ? 1 : beta(p, k + 1, n - k)); // P(X > k) of a binomial

  // Lower end of epsilon that right guesses prove, too high with probability `level`.
  function proved(right, made, level) {
    if (!(right > 0)) return -Infinity;
    const rate = hdpm.root((p) => beta(p, right, made - right + 1) - level, 0, 1);
    return Math.log(rate) - Math.log1p(-rate);
  }

  // Probability that so many guesses reject the claim, if the loss is `truth`.
  function power(truth, made, claim, level) {
    let low = -1, high = made;
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2);
      if (above(middle, made, expit(claim)) > level) low = middle;
      else high = middle;
    }
    return above(high, made, expit(truth));
  }

  hdpm.privacy = { beta, proved, power };

  const BUGS = { none: 1, tenth: 0.9, half: 0.5, third: 1 / 3 }; // noise over the noise that the claim needs

  hdpm.explorers.privacy = ({ claim, bug, runs, level }) => {
    const eps = Number(claim), truth = eps / BUGS[bug], n = 10 ** Number(runs), alarm = 10 ** Number(level);
    const share = (1 + Math.exp(-truth)) / 2; // of the runs in which a guess is made: the release is not between the two
    const made = (N) => Math.round(N * share), bound = (N) => proved(made(N) * expit(truth), made(N), alarm);
    const chance = power(truth, made(n), eps, alarm), found = bound(n);
    const counts = Array.from({ length: 41 }, (_, i) => 10 ** (2 + i / 10));
    const line = (name, f) => ({ name, points: counts.map((N) => [N, f(N)]) });
    return {
      sentence: `The release loses ${hdpm.digits(truth)}, ${hdpm.digits(eps)} is claimed: ${n.toLocaleString("en")} runs prove ${hdpm.digits(Math.max(found, 0))} `
        + `and reject the claim with probability ${hdpm.digits(chance)}.`,
      caption: `By the number of runs, false alarms once in ${hdpm.digits(1 / alarm)}`,
      rows: [2, 3, 4, 5, 6].map((k) => [(10 ** k).toLocaleString("en"), Math.max(bound(10 ** k), 0), power(truth, made(10 ** k), eps, alarm)]),
      figure: {
        x: "runs", y: "privacy loss", log: "x", at: n,
        alt: "The loss that the runs prove rises with their number to the true loss; the claim is a level line.",
        curves: [line("proved", (N) => Math.max(bound(N), 0)), line("true", () => truth), line("claimed", () => eps)],
      },
    };
  };
})();
