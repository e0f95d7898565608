// FL-Market: six owners bid, one of them may lie. The rules are those of hdpm_lib.auctions.allin, posted_prices and
// menus, whose trained weights the page holds.
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

  // The schedule of a network: what each piece adds to the price, for the owner whose turn it is (menus.increments).
  function increments(net, turn, money, sold) {
    const { knots, weights } = net, part = turn.own / (turn.own + turn.rest), left = Math.log(money + 1e-9);
    const layer = (x, W, b) => b.map((c, j) => c + sum(x.map((v, i) => v * W[i][j])));
    let x = [
      left, Math.log(turn.share), turn.share, Math.log1p(turn.successors), turn.rest, Math.log(turn.squares + 1e-6),
      Math.log(part), left + Math.log(part / turn.share), sold.share, sold.epsilon,
      Math.log(sold.squares + 0.01), Math.log(sold.noise + 0.01),
    ];
    for (const name of ["first", "second"]) x = layer(x, weights[name], weights[`${name}_bias`]).map((h) => 0.5 * h * (1 + Math.tanh(0.5 * h)));
    const cut = (v, bound) => Math.min(Math.max(v, -bound), bound);
    const out = layer(x, weights.last, weights.last_bias).map((v) => cut(v, 30));
    const cap = (money * turn.own) / (turn.own + turn.rest * Math.exp(-out[0]));
    const knee = Math.log(0.74) + 0.5 * Math.log(cap / turn.share + 1e-9) + out[1];
    const steps = knots.slice(1).map((k, i) => {
      const width = k - knots[i], middle = Math.log((k + knots[i]) / 2);
      return out[i + 2] + Math.log(width) - Math.log1p(Math.exp(cut(8 * (middle - knee), 60)));
    });
    const most = Math.max(...steps), shares = steps.map((v) => Math.exp(v - most)), all = sum(shares);
    return shares.map((v) => (cap * v) / all);
  }

  // Menus: the largest first, each with a schedule that depends on nothing she says.
  function menus(net, rates, limits, sizes, B) {
    const order = ascending(sizes.map((d) => -d)), records = sum(sizes);
    const shares = order.map((i) => sizes[i] / records), own = shares.map((s) => Math.exp(net.weights.exponent * Math.log(s)));
    const epsilon = sizes.map(() => 0), payments = sizes.map(() => 0), sold = { share: 0, epsilon: 0, squares: 0, noise: 0 };
    let money = B * (1 - 1e-12);
    order.forEach((i, k) => {
      const after = { own: own[k], rest: sum(own.slice(k + 1)), squares: sum(shares.slice(k + 1).map((s) => s * s)), share: shares[k], successors: order.length - 1 - k };
      let price = 0, most = 0;
      increments(net, after, money / records, sold).forEach((step, j) => { // a linear owner takes the best end of a piece
        const start = net.knots[j], end = Math.min(net.knots[j + 1], limits[i]), slope = (step * records) / (net.knots[j + 1] - start);
        const paid = price + slope * (end - start), gain = paid - 2 * rates[i] * sizes[i] * end;
        if (start < limits[i] && gain > most) [most, epsilon[i], payments[i]] = [gain, end, paid];
        price += step * records;
      });
      money = Math.max(money - payments[i], 0);
      const weight = (shares[k] * epsilon[i]) / (epsilon[i] + 0.1), square = epsilon[i] ** 2;
      sold.share += weight;
      sold.epsilon += shares[k] * epsilon[i];
      sold.squares += square;
      sold.noise += weight ** 2 / (square + 0.01);
    });
    return { epsilon, payments };
  }

  const sizes = [120, 80, 60, 40, 20, 10], limits = [1, 1.5, 0.8, 2, 1.2, 1.8], rates = [0.7, 0.35, 0.55, 0.45, 0.3, 0.65];
  const RULES = { printed: "All-in as printed", repaired: "All-in repaired", posted: "posted prices", menus: "learned menus" };

  // What every owner sells, is paid and ends with, if owner `liar` reports `factor` times her valuation.
  function market(net, rule, liar, factor, B) {
    const told = rates.map((a, i) => (i === liar ? a * factor : a)), x = sizes.map((d, i) => d * limits[i]);
    const all = (sale) => ({ epsilon: sale.wins.map((w, i) => (w ? limits[i] : 0)), payments: sale.payments });
    const V = told.map((a, i) => 2 * a * x[i]);
    const found = rule === "posted" ? posted(told, limits, sizes, B)
      : rule === "menus" ? menus(net, told, limits, sizes, B) : all((rule === "printed" ? allIn : repaired)(V, x, B));
    return { ...found, ends: rates.map((a, i) => found.payments[i] - 2 * a * found.epsilon[i] * sizes[i]) };
  }

  hdpm.auctions = { allIn, repaired, posted, menus, market };

  // Owners as bars, in the order of what they ask for a unit, under what the money covers; the first who is not covered
  // ends the sale.
  const units = sizes.map((d, i) => d * limits[i]), worth = sizes.map((d, i) => 2 * d * limits[i] * rates[i]);
  hdpm.explorers.covered = ({ rule, budget, said }) => {
    const B = Number(budget), V = worth.map((v, i) => (i === 3 ? Number(said) : v)), asks = V.map((v, i) => v / units[i]);
    const order = ascending(asks), sale = repaired(V, units, B), all = sum(units.filter((_, i) => sale.wins[i]));
    const payments = V.map((_, i) => (sale.wins[i] && rule === "printed" ? (units[i] * B) / all : sale.payments[i]));
    const ends = payments[3] - worth[3], names = order.filter((i) => sale.wins[i]).map((i) => i + 1).join(", ");
    let from = 0;
    const bars = order.map((i) => [from, (from += units[i]), asks[i]]), X = Array.from({ length: 60 }, (_, k) => ((k + 1) * from) / 60);
    const price = all ? Math.max(...order.map((i) => payments[i] / units[i])) : 0;
    return {
      sentence: `${rule === "printed" ? "As printed" : "Repaired"}, ${budget} euros buy from owners ${names}. Owner 4, to whom hers are worth `
        + `${Math.round(worth[3])}, asks ${said}: ${sale.wins[3] ? `she ends with ${hdpm.digits(ends)}` : "she sells nothing"}.`,
      caption: `Owners in the order of what they ask for a unit, budget ${budget} euros`,
      rows: order.map((i) => [`owner ${i + 1}`, asks[i], units[i], payments[i]]),
      figure: () => ({
        x: "units of privacy loss", y: "euros a unit", range: [0, 2.5],
        alt: "A bar for each owner, as wide as what she offers and as high as what she asks for a unit; a falling curve is what the money "
          + "covers, and a level line what is paid.",
        curves: [
          { name: "sells", bars: bars.filter((_, k) => sale.wins[order[k]]) }, { name: "does not", bars: bars.filter((_, k) => !sale.wins[order[k]]) },
          { name: "budget over units", points: X.map((x) => [x, B / x]) }, { name: "paid a unit", points: [[0, price], [all, price]] },
        ],
      }),
    };
  };

  hdpm.explorers.auction = ({ rule, owner, factor, budget }, net) => {
    const i = Number(owner) - 1, B = Number(budget), f = Number(factor), all = sizes.map((d, k) => 2 * d * limits[k] * rates[k]);
    const found = market(net, rule, i, f, B), ends = found.ends[i], honest = market(net, rule, i, 1, B).ends[i], gain = ends - honest;
    const said = all.map((v, k) => (k === i ? v * f : v)), factors = Array.from({ length: 99 }, (_, k) => 0.05 + 0.025 * k);
    const change = Math.abs(gain) < 1e-9 ? "gains and loses nothing" : `${gain > 0 ? "gains" : "loses"} ${hdpm.digits(Math.abs(gain))}`;
    return {
      sentence: `${RULES[rule]}: the data of owner ${owner} are worth ${hdpm.digits(all[i])} euros to her. She says ${hdpm.digits(said[i])} and ends with `
        + `${hdpm.digits(ends)}; the truth would leave her with ${hdpm.digits(honest)}${f === 1 ? ", too." : `: the lie ${change}.`}`,
      caption: `${RULES[rule]}, budget ${budget} euros`,
      rows: sizes.map((_, k) => [`owner ${k + 1}`, said[k], found.epsilon[k], found.payments[k], found.ends[k]]),
      figure: () => ({
        x: `report of owner ${owner}, times the truth`, y: "she ends with (euros)", at: f, mark: [1, "truth"],
        alt: `What owner ${owner} ends with, by what she reports, in four auctions; a line marks the truth, 1.`,
        curves: Object.entries(RULES).map(([name, label]) => ({ name: label, points: factors.map((x) => [x, market(net, name, i, x, B).ends[i]]) })),
      }),
    };
  };
})();
