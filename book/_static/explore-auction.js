// FL-Market: six owners bid, one of them may lie. The rules are those of hdpm_lib.auctions.allin and posted_prices.
(() => {
  "use strict";
  const sum = (values) => values.reduce((a, b) => a + b, 0);
  const ascending = (keys) => keys.map((_, i) => i).sort((a, b) => keys[a] - keys[b] || a - b);

  // All-in as printed: in the order of unit valuations, whoever is covered by the shared budget wins all she asked for.
  function allIn(V, x, B) {
    const wins = V.map(() => false);
    let taken = 0;
    for (const i of ascending(V.map((v, k) => v / x[k]))) {
      if (V[i] * (taken + x[i]) <= B * x[i]) {
        wins[i] = true;
        taken += x[i];
      }
    }
    return { wins, payments: V.map((_, i) => (wins[i] ? (x[i] * B) / taken : 0)) };
  }

  // Repaired: stop at the first who is not covered; the price is at most what she asks.
  function repaired(V, x, B) {
    const unit = V.map((v, i) => (v <= B ? v / x[i] : Infinity)), order = ascending(unit), wins = V.map(() => false);
    let sold = 0, next = Infinity;
    for (const i of order) {
      if (unit[i] === Infinity || V[i] * (sold + x[i]) > B * x[i]) {
        next = unit[i];
        break;
      }
      wins[i] = true;
      sold += x[i];
    }
    const price = Math.min(B / sold, next);
    return { wins, payments: V.map((_, i) => (wins[i] ? x[i] * price : 0)) };
  }

  // What an owner sells at a price and a cap for one record; her valuation is linear, 2 * rate * epsilon.
  const best = (rate, limit, price, cap) => {
    const epsilon = Math.min(limit, cap / price);
    return price >= 2 * rate ? epsilon : 0;
  };

  // Posted prices: the largest first, each at a price that depends on sizes and on the money left.
  function posted(rates, limits, sizes, B) {
    const epsilon = sizes.map(() => 0), payments = sizes.map(() => 0);
    let money = B * (1 - 1e-12), waiting = sum(sizes);
    for (const i of ascending(sizes.map((d) => -d))) {
      const cap = money / waiting, price = (1.1 + (0.2 * sizes[i]) / waiting) * cap ** (2 / 3);
      epsilon[i] = best(rates[i], limits[i], price, cap);
      payments[i] = sizes[i] * price * epsilon[i];
      money -= payments[i];
      waiting -= sizes[i];
    }
    return { epsilon, payments };
  }

  const sizes = [120, 80, 60, 40, 20, 10], limits = [1, 1.5, 0.8, 2, 1.2, 1.8], rates = [0.7, 0.35, 0.55, 0.45, 0.3, 0.65];
  const RULES = { printed: "All-in as printed", repaired: "All-in repaired", posted: "posted prices" };

  // What every owner sells, is paid and gains, if owner `liar` reports `factor` times her valuation.
  function market(rule, liar, factor, B) {
    const told = rates.map((a, i) => (i === liar ? a * factor : a)), x = sizes.map((d, i) => d * limits[i]);
    const all = (sale) => ({ epsilon: sale.wins.map((w, i) => (w ? limits[i] : 0)), payments: sale.payments });
    const V = told.map((a, i) => 2 * a * x[i]);
    const found = rule === "posted" ? posted(told, limits, sizes, B) : all((rule === "printed" ? allIn : repaired)(V, x, B));
    return { ...found, gains: rates.map((a, i) => found.payments[i] - 2 * a * found.epsilon[i] * sizes[i]) };
  }

  hdpm.auctions = { allIn, repaired, posted, market };

  hdpm.explorers.auction = ({ rule, owner, factor, budget }) => {
    const i = Number(owner) - 1, B = Number(budget), truth = market(rule, i, 1, B), lie = market(rule, i, Number(factor), B);
    const gain = lie.gains[i] - truth.gains[i];
    const factors = Array.from({ length: 121 }, (_, k) => 0.05 + (k * 2.45) / 120);
    return {
      sentence: Math.abs(gain) < 1e-9 ? `${RULES[rule]}: the report changes nothing for owner ${owner}, who gains ${hdpm.digits(truth.gains[i])}.`
        : `${RULES[rule]}: owner ${owner} ${gain > 0 ? "gains" : "loses"} ${hdpm.digits(Math.abs(gain))} by reporting ${factor} times her valuation.`,
      caption: `${RULES[rule]}, budget ${budget}`,
      rows: sizes.map((d, k) => [`owner ${k + 1}`, 2 * d * limits[k] * rates[k] * (k === i ? Number(factor) : 1), lie.epsilon[k], lie.payments[k], lie.gains[k]]),
      figure: {
        x: `what owner ${owner} reports, over her valuation`, y: "her gain", at: Number(factor),
        alt: `Gain of owner ${owner} by what she reports, in three auctions; in the repaired one and at posted prices it is largest at the truth, 1.`,
        curves: Object.entries(RULES).map(([name, label]) => ({ name: label, points: factors.map((f) => [f, market(name, i, f, B).gains[i]]) })),
      },
    };
  };
})();
