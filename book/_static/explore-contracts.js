// Contracts with a biased algorithm: who gives how much privacy, and for what. The formulas are those of
// hdpm_lib.markets.contracts, mechanisms and contracts_bounds, for sellers of range 1.
(() => {
  "use strict";
  const sum = (values) => values.reduce((a, b) => a + b, 0);

  // Least-cost contract for a mean squared error of at most K: shares min(1, (theta / v)^(1 / (r - 1))).
  function least(v, K, r) {
    const n = v.length, none = v.map(() => 0);
    if (n * n <= 4 * K) return { shares: none, epsilon: none, cost: 0 };
    const share = (theta) => (x) => (x <= theta ? 1 : r === 1 ? 0 : (theta / x) ** (1 / (r - 1)));
    const gap = (theta) => {
      const T = sum(v.map((x) => 1 - share(theta)(x)));
      return T * sum(v.map((x) => Math.min(x, theta))) - 4 * K * theta;
    };
    let shares;
    if (r === 1) { // the threshold stands at a valuation, whose sellers fill up what is missing
      const theta = [...new Set(v)].sort((a, b) => a - b).find((x) => gap(x) <= 0);
      const ties = v.filter((x) => x === theta).length, below = v.filter((x) => x < theta);
      const m = n - below.length, s = sum(below);
      const part = Math.min(1, Math.max(0, m - (4 * K * theta) / (s + m * theta)) / ties);
      shares = v.map((x) => (x < theta ? 1 : x === theta ? part : 0));
    } else {
      const theta = hdpm.root(gap, Math.min(...v) * 1e-9, Math.max(...v));
      shares = v.map(share(theta));
    }
    const scale = Math.sqrt((K - (sum(shares.map((a) => 1 - a)) / 2) ** 2) / 2);
    const epsilon = shares.map((a) => a / scale);
    return { shares, epsilon, cost: sum(v.map((x, i) => x * epsilon[i] ** r)) };
  }

  // M2: the least cost, and payments that make the truth the best report up to the ceiling.
  function m2(v, K, r, ceiling) {
    const best = least(v, K, r);
    const payments = v.map((x, i) => best.epsilon[i] === 0 ? 0 : least(v.map((y, j) => (j === i ? ceiling : y)), K, r).cost - best.cost + x * best.epsilon[i] ** r);
    return { ...best, payments };
  }

  const unbiased = (n, K) => n * Math.sqrt(2 / K);
  const biased = (n, K) => (4 * K < n * n ? Math.sqrt((2 * n * n) / K - 8) : 0);

  // No algorithm needs less privacy in all.
  function bound(n, K) {
    const peak = 1.8101705806989775 * 2 * Math.sqrt(K);
    const of = (m) => (n / m) * 2 * Math.acosh(Math.max(m / (2 * Math.sqrt(K)), 1));
    return Math.max(...[Math.floor(peak), Math.ceil(peak)].map((m) => of(Math.min(Math.max(m, 1), n))));
  }

  hdpm.contracts = { least, m2, unbiased, biased, bound };

  hdpm.explorers.contracts = ({ valuations, goal, error, money, power }) => {
    const v = valuations.split(/[\s,;]+/).filter(Boolean).map(Number), n = v.length, r = Number(power);
    if (n < 2 || n > 12 || v.some((x) => !(x > 0 && x <= 1000))) {
      return { refused: true, sentence: "Give 2 to 12 valuations, each above 0 and at most 1000." };
    }
    const ceiling = 2 * Math.max(...v), most = (n * n) / 4;
    const spent = (K) => sum(m2(v, K, r, ceiling).payments);
    const K = goal === "money" ? Math.exp(hdpm.root((t) => spent(Math.exp(t)) - Number(money), Math.log(most) - 18, Math.log(most))) : Number(error) ** 2 * n * n;
    const found = m2(v, K, r, ceiling), total = sum(found.epsilon);
    const errors = Array.from({ length: 60 }, (_, i) => 0.02 * (0.499 / 0.02) ** (i / 59));
    const curve = (name, f) => ({ name, points: errors.map((e) => [e, f((e * n) ** 2)]) });
    const e = Math.sqrt(K) / n;
    return {
      sentence: `A mean of ${n} numbers from 0 to 1 that is off by at most ${hdpm.digits(e)} (root mean square, whatever the numbers are) `
        + `costs the buyer ${hdpm.digits(sum(found.payments))} euros. The sellers lose ${hdpm.digits(total)} of privacy in all; `
        + `no algorithm manages with less than ${hdpm.digits(bound(n, K))}.`,
      caption: `Contract M2; a seller's cost in euros is her valuation times the ${r === 1 ? "loss" : `loss to the power ${r}`}`,
      rows: v.map((x, i) => [String(x), found.shares[i], found.epsilon[i], x * found.epsilon[i] ** r, found.payments[i]]),
      figure: () => ({
        x: "error of the mean (root mean square, numbers from 0 to 1)", y: "privacy loss of all sellers", log: "xy", at: e,
        alt: "Privacy lost in all against the error: unbiased answer, biased answer, least-cost contract, and the line that no algorithm passes.",
        curves: [curve("without bias", (k) => unbiased(n, k)), curve("with bias, equal losses", (k) => biased(n, k)), curve("at least cost", (k) => sum(least(v, k, r).epsilon)), curve("no algorithm below", (k) => bound(n, k))],
      }),
    };
  };
})();
