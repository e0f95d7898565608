"""The figures and numbers of the front page say what its words say."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from hdpm_book import front


def curves(figure: Figure, panel: int = 0) -> dict[str, np.ndarray]:
    """The drawn values, by the name in the legend."""
    return {str(line.get_label()): np.asarray(line.get_ydata(), dtype=float) for line in figure.axes[panel].lines}


def test_the_winner_depends_on_the_yardstick() -> None:
    found = front.reversal()
    assert (found.mean["auction"] <= found.mean["contracts"]).all()
    assert (found.worst["auction"] >= found.worst["contracts"]).all()
    better, worse = found.times(30.0)
    assert better > 2 and worse > 2
    drawn = curves(front.hero(), 1)
    np.testing.assert_array_equal(drawn["auction"], found.worst["auction"])


def test_each_card_shows_what_it_says() -> None:
    noise = curves(front.ridge())
    own, strictest = noise["each her own"], noise["all as the strictest"]
    assert (np.diff(own) > 0).all() and np.ptp(strictest[1:]) < 1e-12 and strictest[1] == own[-1] > 3 * own[10]
    loss = curves(front.contracts())
    assert (loss["biased"] <= loss["unbiased"]).all() and (loss["no algorithm below"] <= loss["biased"] + 1e-9).all()
    joint = curves(front.together())
    assert (joint["its hull"] <= joint["objective"] + 1e-9).all() and np.ptp(
        joint["objective"] - joint["its hull"]
    ) > 0.1
    money = curves(front.before_the_data())
    assert (money["payment"] >= money["her own cost"]).all() and money["payment"][-1] == 0
    gain = curves(front.auction())
    assert gain["as printed"].max() > 97 and gain["repaired"].max() <= 0


def test_all_that_the_page_shows_is_there() -> None:
    shown = front.shown()
    assert shown["gain"] == "98" and shown["paid"] == "100"
    assert all(figure.alt for name, figure in shown.items() if name == "hero" or name.startswith("card"))
