r"""A posted menu for sellers who trust nobody: each randomises her own record, as far as it pays.

A record of variance :math:`\tau^2` with noise of its own, of mean square :math:`\nu/\varepsilon^2`,
tells :math:`f(\varepsilon)=\varepsilon^2/(\tau^2\varepsilon^2+\nu)` about the mean: this
*information*, an inverse variance, adds up over sellers. The buyer who values a unit of it at
:math:`\lambda`, and counts the virtual cost :math:`\psi`, wants from each seller the loss that
maximises :math:`\lambda f(\varepsilon)-\psi\varepsilon`. No seller's loss depends on another's
report, so a price list does it: no auction is needed.

The information is S-shaped. Below :math:`\varepsilon_0=\sqrt\nu/\tau` two sellers who sell half
each tell less than one who sells all, so nobody sells less than that (:doc:`/book/beyond/curves`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hdpm_lib.markets.outcome import Outcome
from hdpm_lib.validation import Array, check_finite, check_number

RANGE = (1e-50, 1e50)  # of costs and constants: their products stay within floats


def information(epsilon: ArrayLike, variance: float, noise: float) -> Array:
    r"""Return the information of a record, :math:`\varepsilon^2/(\tau^2\varepsilon^2+\nu)`."""
    eps = check_finite(epsilon, "epsilon", low=0)
    tau2, nu = _constants(variance, noise)
    return np.asarray(1 / (tau2 + nu / np.maximum(eps, 1e-150) ** 2))


def local_menu(virtual_costs: ArrayLike, variance: float, noise: float, worth: float) -> Outcome:
    r"""Decide whose privacy to buy, and how much, if each seller randomises her own record.

    Parameters
    ----------
    virtual_costs : array of any shape
        Virtual costs of a unit of privacy loss, :math:`\psi`, positive, in units of money.
    variance : float
        Variance of a record, :math:`\tau^2`, positive.
    noise : float
        Mean square :math:`\nu` of the noise at a loss of 1, positive. For records in a ball of
        diameter `s` in `d` dimensions, with spherical Laplace noise, it is :math:`d(d+1)s^2`.
    worth : float
        Value of a unit of information, :math:`\lambda`, positive, in units of money.

    Returns
    -------
    Outcome
        Privacy losses in the shape of the virtual costs, and nothing else.

    Notes
    -----
    She sells if :math:`\psi\le\lambda/(2\tau\sqrt\nu)`. Then :math:`\varepsilon=\varepsilon_0u`,
    where :math:`u\ge1` solves :math:`u/(1+u^2)^2=\psi\tau\sqrt\nu/(2\lambda)`.

    Examples
    --------
    At a worth of 5 the seller at 1 sells more than the one at 2, and the third nothing:

    >>> local_menu([1.0, 2.0, 5.0], 1.0, 1.0, 5.0).privacy_loss.round(4)
    array([1.8011, 1.2068, 0.    ])
    """
    from scipy.optimize import elementwise  # loads slowly

    least, most = RANGE
    psi = check_finite(virtual_costs, "virtual_costs", None, least, most)
    tau2, nu = _constants(variance, noise)
    level = psi * np.sqrt(tau2 * nu) / (2 * check_number(worth, "worth", least, most))
    sells = level <= 0.25
    level = level[sells]

    def excess(u: Array, level: Array) -> Array:
        return u / (1 + u * u) ** 2 - level

    ends = np.ones_like(level), 2 * np.cbrt(1 / level)
    u = elementwise.find_root(excess, ends, args=(level,)).x
    u = np.where(level >= 0.25, 1.0, u)
    loss = np.zeros(psi.shape)
    loss[sells] = np.sqrt(nu / tau2) * u
    return Outcome(loss)


def _constants(variance: float, noise: float) -> tuple[float, float]:
    """Return the constants as floats."""
    least, most = RANGE
    tau2 = check_number(variance, "variance", least, most)
    nu = check_number(noise, "noise", least, most)
    return tau2, nu
