// The market that decides before it sees the data: who is bought, and for what. The formulas are those of
// hdpm_lib.markets.procurement and procurement_payments, without a cap, for costs on [low, high] whose
// distribution function is ((c - low) / (high - low)) to the power `steep`: 1 is the uniform law, more have dearer sellers.
(() => {
  "use strict";
  const sum = (values) => values.reduce((a, b) => a + b, 0);

  // The least proxy loss at these virtual costs: the local minimum of every piece, a cubic's root, and the best of them.
  function procure(psi, mu, sigma, gamma) {
    const kappa = (sigma * gamma) / mu ** 2, sorted = [...psi].sort((a, b) => a - b);
    const sums = (t) => {
      const below = sorted.filter((x) => x < t).map((x) => t - x);
      return { total: sum(below), square: sum(below.map((x) => x * x)) };
    };
    const loss = (t) => {
      const { total, square } = sums(t);
      return (mu * Math.sqrt(square)) / total + 2 * Math.sqrt(sigma * gamma * (t - square / total));
    };
    const cutoffs = [];
    for (let n = 1; n <= sorted.length; n++) {
      const bought = sorted.slice(0, n), mean = sum(bought) / n, spread = sum(bought.map((x) => (x - mean) ** 2));
      const slope = mean - kappa * spread;
      const cosine = -1.5 * (spread / slope) * Math.sqrt((3 * kappa) / n / slope);
      if (!(slope > 0) || Math.abs(cosine) > 1) continue;
      const inverse = 2 * Math.sqrt((slope * n) / (3 * kappa)) * Math.cos(Math.acos(cosine) / 3);
      const cutoff = mean + inverse / n;
      if (cutoff > sorted[n - 1] && cutoff <= (sorted[n] ?? Infinity) * (1 + 1e-12)) cutoffs.push(cutoff);
    }
    const cutoff = cutoffs.reduce((a, b) => (loss(b) < loss(a) ? b : a));
    const { total, square } = sums(cutoff);
    const epsilon = psi.map((x) => (mu * Math.max(cutoff - x, 0)) / (gamma * Math.sqrt(square) * total));
    return { epsilon, cutoff, loss: loss(cutoff) };
  }

  // Purchase and payments. The virtual cost is linear, so the payments' integral is a difference of two losses.
  function market(costs, low, high, steep, mu, sigma, gamma) {
    const virtual = (c) => c + (c - low) / steep, psi = costs.map(virtual), found = procure(psi, mu, sigma, gamma);
    const payments = costs.map((c, i) => {
      if (!(found.epsilon[i] > 0)) return 0;
      const dearer = procure(psi.map((x, j) => (j === i ? virtual(high) : x)), mu, sigma, gamma);
      return c * found.epsilon[i] + (dearer.loss - found.loss) / ((1 + 1 / steep) * gamma);
    });
    return { ...found, payments };
  }

  hdpm.logistic = { procure, market };

  const LAWS = { 0.5: "most of them cheap", 1: "uniform", 2: "most of them dear" };

  hdpm.explorers.logistic = ({ sellers, law, spread, gamma }) => {
    const m = Number(sellers), high = Number(spread), steep = Number(law);
    const costs = Array.from({ length: m }, (_, i) => 1 + ((i + 0.5) / m) ** (1 / steep) * (high - 1));
    const found = market(costs, 1, high, steep, 1, 1, Number(gamma)), bought = found.epsilon.filter((e) => e > 0).length;
    const shown = [0, 0.1, 0.25, 0.5, 0.75, 0.9, 1].map((p) => Math.round(p * (m - 1)));
    const own = costs.map((c, i) => c * found.epsilon[i]);
    return {
      sentence: `${bought} of ${m} sellers are bought, for ${hdpm.digits(sum(found.payments))} in all; what they lose costs them ${hdpm.digits(sum(own))}.`,
      caption: `${m} sellers, costs from 1 to ${spread}, ${LAWS[law]}; money weighs ${gamma}`,
      rows: shown.map((i) => [`seller ${i + 1}`, costs[i], found.epsilon[i], own[i], found.payments[i]]),
      figure: () => ({
        x: "cost of a unit of privacy", y: "money",
        alt: "Payment and own cost of each seller by her cost; payments lie above, and both are 0 from the cutoff on.",
        curves: [{ name: "payment", points: costs.map((c, i) => [c, found.payments[i]]) }, { name: "her own cost", points: costs.map((c, i) => [c, own[i]]) }],
      }),
    };
  };
})();
