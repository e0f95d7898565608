"""The ridge paper: its made-up people, what its tables print twice, closed-form cells, fresh
draws.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.linear_model import Ridge

from hdpm_book.ridge import study
from hdpm_book.ridge.moments import QuadraticLoss
from tests.support import generator, ks_check, mean_z, objections, refusals, z_check, z_limit


def medical(n: int = 1070, n_test: int = 268) -> study.Split:
    """Data of the size of the medical records, with their intercept."""
    rng = generator(90)
    X = np.column_stack([rng.random((n + n_test, 11)), np.ones(n + n_test)])
    y = np.clip(X @ rng.uniform(0, 0.15, 12) + 0.05 * rng.standard_normal(n + n_test), 0, 1)
    return study.Split(X[:n], y[:n], X[n:], y[n:])


GROUPS = study.PrivacyGroups(f_c=0.54, f_m=0.37, eps_c=0.02, eps_m=0.5, eps_l=1.5)


def test_draws_lie_in_the_ranges_of_their_groups_in_random_order() -> None:
    assert study.PrivacyGroups().counts(1070) == (363, 460, 247) and GROUPS.counts(80) == (
        43,
        29,
        8,
    )
    # not int(0.29 * 100)
    assert study.PrivacyGroups(f_c=0.29, f_m=0.57).counts(100) == (29, 57, 14)
    assert study.PrivacyGroups(f_c=0.29, f_m=0.71).counts(100) == (29, 71, 0)
    assert GROUPS.counts(1) == (0, 0, 1) and study.PrivacyGroups(0.0, 1.0).counts(5) == (0, 5, 0)
    drawn = GROUPS.draw(1000, rng=generator(81))
    conservative, pragmatic, liberal = np.split(np.sort(drawn), [540, 910])
    assert conservative.max() <= 0.5 <= pragmatic.min() and (liberal == 1.5).all()
    uniform = [ks_check("c", conservative, stats.uniform(0.02, 0.48).cdf, 2)]
    uniform.append(ks_check("m", pragmatic, stats.uniform(0.5, 1.0).cdf, 2))
    assert objections(uniform) == []
    law = stats.hypergeom(1000, 90, 500)
    tail = stats.norm.sf(z_limit())
    assert law.ppf(tail) <= (drawn[:500] == 1.5).sum() <= law.isf(tail)


def test_moments_of_the_sum() -> None:
    rng = generator(87)
    n = 4000
    sums = np.array([GROUPS.draw(83, rng=rng).sum() for _ in range(n)])
    mean, std = GROUPS.total(83)
    checks = [z_check("mean", n, float(mean_z(sums, mean)), 2)]
    checks.append(z_check("variance", n, float(mean_z((sums - mean) ** 2, std**2)), 2))
    assert objections(checks) == []
    # whole numbers: nothing is cut down
    assert GROUPS.mean() == pytest.approx(GROUPS.total(100)[0] / 100)


test_what_is_refused = refusals(
    (lambda: study.PrivacyGroups(f_c=-0.1), "f_c and f_m must be shares"),
    (lambda: study.PrivacyGroups(f_c=0.6, f_m=0.5), "with a sum of at most 1, got 0.6 and 0.5"),
    (lambda: study.PrivacyGroups(f_m=math.nan), "f_m must be finite, got nan"),
    (lambda: study.PrivacyGroups(eps_c=0.0), "need 0 < eps_c <= eps_m <= eps_l, got 0.0, 0.2, 1.0"),
    (lambda: study.PrivacyGroups(eps_m=2.0), "got 0.01, 2.0, 1.0"),
    (lambda: study.published(15), "number must be an integer from 1 to 14, got 15"),
    (
        lambda: study.cells(study.fresh_draws(study.published(11), generator())[0], 3.0, masks=5),
        "rng is needed",
    ),
    (
        lambda: study.fresh_draws(study.published(2), generator()),
        "Table 2 needs the medical records",
    ),
)


def test_linear_data_follow_their_law() -> None:
    """Noiseless, in the box, features uniform; the hidden direction uniform on the sphere, and new
    in every draw.
    """
    rng = generator(85)
    n = 3000
    directions = np.empty((3000, 3))
    features = np.empty((3000, 3))
    for k in range(n):
        split = study.linear_population(4, 1, 3, rng=rng)
        X = np.vstack([split.X_train, split.X_test])
        y = np.append(split.y_train, split.y_test)
        assert X.shape == (5, 3) and X.min() >= 0 and X.max() <= 1 and np.abs(y).max() <= 1
        directions[k], features[k] = np.linalg.lstsq(X, y, rcond=None)[0] * math.sqrt(3), X[-1]
        np.testing.assert_allclose(X @ directions[k] / math.sqrt(3), y, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1, rtol=1e-9)
    # Archimedes
    checks = [
        ks_check(f"direction {j}", directions[:, j], stats.uniform(-1, 2).cdf, 6) for j in range(3)
    ]
    checks += [
        ks_check(f"feature {j}", features[:, j], stats.uniform(0, 1).cdf, 6) for j in range(3)
    ]
    assert objections(checks) == []


def test_tables_agree_where_they_share_columns() -> None:
    """Tables 11 and 12 print two columns of Tables 1 and 2 again."""
    for first, second in ((1, 11), (2, 12)):
        pair = [study.published(k).printed[["unreg_pdp_op", "reg_pdp_op"]] for k in (first, second)]
        rows = pair[0].index.intersection(pair[1].index)
        assert len(rows) == 12
        pd.testing.assert_frame_equal(pair[0].loc[rows], pair[1].loc[rows])


# table, row
@pytest.mark.parametrize(("number", "line"), [(1, 3), (1, 9), (3, 2), (4, 1), (10, 4)])
def test_cells_of_both_methods(number: int, line: int) -> None:
    """Scikit-learn's estimate and the paper's rate typed anew; the moments have tests of their
    own.
    """
    spec = study.published(number)
    draw = study.fresh_draws(spec, generator(91, number, line), medical())[line]
    row = list(spec.rows())[line]
    X = draw.split.X_train
    y = draw.split.y_train
    penalty = row.penalty
    found = study.cells(draw, row.penalty)
    d = X.shape[1]
    loss = QuadraticLoss.of(draw.split.X_test, draw.split.y_test)
    B = min(1 / math.sqrt(penalty), math.sqrt(d) / penalty)
    for name, epsilon in (
        ("pdp_op", draw.epsilon),
        ("nonpersonalized", np.full(len(y), draw.epsilon.min())),
    ):
        theta = (
            Ridge(alpha=penalty, fit_intercept=False)
            .fit(X, y, sample_weight=epsilon / epsilon.sum())
            .coef_
        )
        rate = penalty * epsilon.sum() / (2 * math.sqrt(d) * (1 + math.sqrt(d) * B))
        for kind, added in (("unreg", 0.0), ("reg", penalty)):
            expected = loss.under_noise(theta, rate, added)
            cell = found[f"{kind}_{name}"]
            np.testing.assert_allclose(
                [cell.mean, cell.variance], [expected.mean, expected.variance], rtol=1e-9
            )


def test_noiseless_cells() -> None:
    draw = study.fresh_draws(study.published(11), generator(92))[0]
    found = study.cells(draw, 3.0, masks=5, rng=generator(93))
    X = draw.split.X_train
    y = draw.split.y_train
    theta = Ridge(alpha=3.0 * len(y), fit_intercept=False).fit(X, y).coef_
    direct = ((draw.split.y_test - draw.split.X_test @ theta) ** 2).mean() + 3 * theta @ theta
    assert (
        found["reg_nonprivate"].mean == pytest.approx(direct)
        and found["reg_nonprivate"].variance == 0
    )
    assert found["unreg_nonprivate"].mean < 1e-25  # noiseless data: nothing but round-off


def test_rows_keep_what_is_not_swept() -> None:
    mine = study.PrivacyGroups(f_c=0.3, f_m=0.1, eps_m=0.6)
    for number, swept in ((7, "f_c"), (3, "eps_c"), (5, "eps_m")):
        for row in study.published(number).rows(mine):
            assert row.groups == dataclasses.replace(mine, **{swept: row.value})
    captioned = [row.groups for row in study.published(8).rows()]
    assert [(g.f_c, g.f_m) for g in captioned] == [(k / 10, 0.37) for k in range(1, 7)]
    # her numbers, and no others
    with pytest.raises(ValueError, match=r"at most 1, got 0\.9 and 0\.2"):
        spec = study.published(7)
        list(
            dataclasses.replace(spec, printed=spec.printed.reindex([0.9])).rows(
                study.PrivacyGroups(f_m=0.2)
            )
        )


def test_a_share_of_the_records_is_cut_down_to_a_whole_number() -> None:
    assert [len(study.take(medical(100, 1), k / 100).y_train) for k in (29, 57, 58)] == [29, 57, 58]


def test_fresh_draws() -> None:
    one, nine, ten = (
        study.fresh_draws(study.published(k), generator(95), medical()) for k in (1, 9, 10)
    )
    assert all(draw is one[0] for draw in one)  # one draw for the whole sweep of the penalty
    assert [len(draw.epsilon) for draw in nine] == [8 * k for k in range(1, 11)]
    assert [len(draw.split.y_train) for draw in ten] == [107 * k for k in range(1, 11)]
    assert (
        len({draw.split.y_train[0] for draw in nine}) == 10
        and len({draw.split.y_train[0] for draw in ten}) == 1
    )
    assert one[0].total == one[0].epsilon.sum() and one[0].strictest == one[0].epsilon.min()
    assert (
        len(study.take(medical(), 0.5).y_train) == 535
        and len(study.take(medical(), 1e-9).y_train) == 1
    )


def test_effective_budget_of_sampling() -> None:
    """The mean inverse square of the sample size, by simulation."""
    rng = generator(100)
    epsilon = study.PrivacyGroups().draw(80, rng=rng)
    for threshold in (1.0, float(epsilon.mean())):
        kept = np.where(epsilon >= threshold, 1, np.expm1(epsilon) / np.expm1(threshold))
        sizes = (rng.random((20_000, 80)) < kept).sum(1)
        direct = threshold * np.mean(1.0 / sizes**2) ** -0.5
        assert study.effective_sample_budget(epsilon, threshold) == pytest.approx(direct, rel=0.01)
