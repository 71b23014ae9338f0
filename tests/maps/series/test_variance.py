"""Closed-form variances of Maclaurin features."""

import pytest

from mercer import ExponentialDotProduct, NoClosedFormError, Polynomial

from .maclaurin_designs import DESIGNS, fitted, rows


@pytest.mark.parametrize(("plan", "projection"), [cell for cell in DESIGNS if cell != ("degrees", "srht")])
def test_predicted_error_is_the_mean_variance_on_the_sample(plan, projection):
    X = rows()
    m = fitted(ExponentialDotProduct(0.5), 12, X, plan=plan, projection=projection, eps=0.05, anchor=None)
    # The prediction neglects degrees beyond the table and single real parts of complex components.
    tolerance = 0.01 if plan in ("optimal", "random") else 1e-5
    assert m.plan_.predicted_deviation**2 == pytest.approx(m.variance(X).mean(), rel=tolerance, abs=1e-12)


def test_sums_of_hadamard_products_have_no_closed_form():
    with pytest.raises(NoClosedFormError, match="No closed form is known for the variance of plan='degrees'"):
        fitted(Polynomial(3), 9, plan="degrees", projection="srht").variance(rows())
