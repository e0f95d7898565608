"""Integrals of what is bought over a seller's own report: it never rises, and may drop.

Panels of the integral are halved where their nodes do not foresee what is at the nodes of the
halves. There are nodes at the ends of a panel, between which nothing is bought that is not between
what is bought at them: so no drop is missed, wherever it lies, and one that is narrow or near an
end is found by bisection. Where the nodes of a panel stand on either side of a drop, what they do
not foresee is more than the error of the integral.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from hdpm_lib.validation import Array

Indices = NDArray[np.intp]
HALVINGS = 60  # of a panel, at most
PANELS = 10_000  # a seller, on average, at most


def panel_integrals(
    bought: Callable[[Indices, Array], Array],
    seller: Indices,
    panels: Array,
    own_cost: Array,
    *,
    accuracy: float,
    nodes: int,
    negligible: Array | float = 0.0,
) -> Array:
    """Integrate over panels, summed for each seller, shape (n,).

    Parameters
    ----------
    bought : callable
        From sellers, shape (k,), and reports of each, shape (k, nodes), to amounts of that shape.
    seller : array of int, shape (k,)
        Whose panel each is.
    panels : array of shape (k, 2)
        Their ends.
    own_cost : array of shape (n,)
        Part of a payment beside its integral.
    accuracy : float
        Of a payment, relative.
    nodes : int
        Of a panel.
    negligible : array of shape (n,), default 0
        An error that does not count, for a payment of 0 that a drop ends at once.

    Raises
    ------
    RuntimeError
        If a payment does not settle.
    """
    at, weight, foresee = lobatto(nodes)

    def amounts(i: Indices, panels: Array) -> Array:
        reports = panels[:, :1] + np.diff(panels) * at
        return bought(i, np.minimum(reports, panels[:, 1:]))  # rounding goes beyond no end

    i = seller
    coarse = amounts(i, panels)
    total = np.zeros_like(own_cost)
    for _ in range(HALVINGS):
        low, high = panels.T
        middle = panels.mean(1)
        halves = np.stack([low, middle, middle, high], 1).reshape(-1, 2)
        fine = amounts(np.repeat(i, 2), halves).reshape(len(i), -1)
        sums = fine @ weight * (high - low)
        errors = np.abs(fine - coarse @ foresee) @ weight * (high - low)
        paid = own_cost + total + np.bincount(i, sums, len(total))
        left = errors * np.bincount(i)[i] > (accuracy * paid + negligible)[i]
        total += np.bincount(i[~left], sums[~left], len(total))
        if not left.any():
            return total
        if left.sum() > PANELS * len(total):
            break
        i = np.repeat(i[left], 2)
        panels = halves[np.repeat(left, 2)]
        coarse = fine[left].reshape(-1, nodes)
    raise RuntimeError(
        f"the payment of seller {i[0]} did not settle to {accuracy:g}: does what is bought rise in"
        " her own report, or drop too often?"
    )


@cache
def lobatto(nodes: int) -> tuple[Array, Array, Array]:
    """Return the Gauss-Lobatto rule: nodes in [0, 1], weights on two halves, and a matrix.

    The matrix gives values on the halves from those at the nodes.
    """
    legendre = np.polynomial.legendre
    basis = legendre.Legendre.basis(nodes - 1)
    inner = np.sort(basis.deriv().roots().real)  # since NumPy 2.5 roots are complex, real or not
    at = np.concatenate([[-1.0], inner, [1.0]])
    weight = 1 / (nodes * (nodes - 1) * basis(at) ** 2)
    halves = legendre.legvander(np.append(at - 1, at + 1) / 2, nodes - 1)
    at_nodes = legendre.legvander(at, nodes - 1)
    foresee = np.asarray(np.linalg.solve(at_nodes.T, halves.T), dtype=float)
    return (at + 1) / 2, np.tile(weight, 2) / 2, foresee
