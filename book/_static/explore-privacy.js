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

  // Whether a release is `centre` plus some floating-point number, rounded once: hdpm_book.privacy.digits.on_grid.
  const bits = new DataView(new ArrayBuffer(8));
  function beside(x, step) { // the next float, away from zero or towards it
    bits.setFloat64(0, x);
    bits.setBigInt64(0, bits.getBigInt64(0) + step);
    return bits.getFloat64(0);
  }
  const possible = (o, centre) => [o - centre, beside(o - centre, 1n), beside(o - centre, -1n)].some((x) => centre + x === o);

  hdpm.privacy = { beta, proved, power, possible };

  const BUGS = { none: 1, tenth: 0.9, half: 0.5, third: 1 / 3 }; // noise over the noise that the claim needs

  hdpm.explorers.privacy = ({ claim, bug, runs, alarms, view }, draws) => {
    const eps = Number(claim), truth = eps / BUGS[bug], n = Number(runs), level = 1 / Number(alarms);
    const share = (1 + Math.exp(-truth)) / 2; // of the runs in which a guess is made: the release is not between the two
    const made = (N) => Math.round(N * share), bound = (N) => Math.max(proved(made(N) * expit(truth), made(N), level), 0);
    const chance = (N) => power(truth, made(N), eps, level);
    const betrayed = draws.filter((z) => !possible(0 + z / truth, 1)).length;
    const counts = Array.from({ length: 41 }, (_, i) => Math.round(10 ** (2 + i / 10)));
    const line = (name, f, along = counts) => ({ name, points: along.map((x) => [x, f(x)]) });
    const outputs = Array.from({ length: 121 }, (_, i) => -3 + i / 17.142857142857142);
    const density = (at) => (o) => (truth / 2) * Math.exp(-Math.abs(o - at) * truth);
    const figures = {
      proved: () => ({
        x: "runs", y: "privacy loss", log: "x", at: n,
        alt: "The loss that the runs prove rises with their number to the true loss; the claim is a level line.",
        curves: [line("proved", bound), line("true", () => truth), line("claimed", () => eps)],
      }),
      power: () => ({
        x: "runs", y: "probability of a rejection", log: "x", at: n,
        alt: "The probability that the claim is rejected rises with the number of runs, if the claim is false.",
        curves: [line("claim rejected", chance)],
      }),
      densities: () => ({
        x: "release", y: "density", log: "y",
        alt: "Densities of the release for the answers 0 and 1, with straight flanks on a logarithmic scale, as far apart as the loss.",
        curves: [line("answer 0", density(0), outputs), line("answer 1", density(1), outputs)],
      }),
    };
    return {
      sentence: `The release loses ${hdpm.digits(truth)}, ${hdpm.digits(eps)} is claimed: ${runs} runs prove ${hdpm.digits(bound(n))} `
        + `and reject the claim with probability ${hdpm.digits(chance(n))}. Its last digits alone give ${betrayed} of ${draws.length} releases of the answer 0 away.`,
      caption: `By the number of runs, false alarms once in ${alarms}`,
      rows: [100, 1000, 10000, 100000, 1000000].map((N) => [String(N), bound(N), chance(N)]),
      figure: figures[view],
    };
  };
})();
