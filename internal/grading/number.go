package grading

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// tolerance says how far a number may be from the answer's.
type tolerance struct {
	absolute, relative           float64
	exactAbsolute, exactRelative *big.Rat
}

// newTolerance reads tolerances that [job.Checker.Options] has checked; "" is none.
func newTolerance(absolute, relative string) (*tolerance, error) {
	t := &tolerance{}
	for _, v := range []struct {
		text  string
		float *float64
		exact **big.Rat
	}{{absolute, &t.absolute, &t.exactAbsolute}, {relative, &t.relative, &t.exactRelative}} {
		if v.text == "" {
			v.text = "0"
		}
		f, err := strconv.ParseFloat(v.text, 64)
		if err != nil {
			return nil, fmt.Errorf("read tolerance %q: %w", v.text, err)
		}
		exact, ok := exactly(v.text)
		if !ok {
			return nil, fmt.Errorf("read tolerance %q: its exponent is out of range", v.text)
		}
		*v.float, *v.exact = f, exact
	}
	return t, nil
}

// near reports whether |s−a| ≤ absolute or ≤ relative·|a|, for two tokens that are numbers. It is exact:
// float64 decides where its own error can't matter, and fractions where it could. Numbers with exponents
// beyond maxExponent are never near.
func (t *tolerance) near(s, a string) bool {
	const epsilon, tiny = 1.0 / (1 << 50), 1e-300 // above all errors of the five operations; of underflow
	x, errX := strconv.ParseFloat(s, 64)
	y, errY := strconv.ParseFloat(a, 64)
	if errX == nil && errY == nil && math.Abs(x) < 1e300 && math.Abs(y) < 1e300 {
		gap := math.Abs(x - y)
		allowed := max(t.absolute, t.relative*math.Abs(y))
		doubt := epsilon*(math.Abs(x)+math.Abs(y)+allowed) + tiny
		switch {
		case gap+doubt < allowed:
			return true
		case gap-doubt > allowed:
			return false
		case isZero(a) && t.absolute == 0:
			return isZero(s)
		}
	}
	return t.nearExactly(s, a)
}

func (t *tolerance) nearExactly(s, a string) bool {
	x, okX := exactly(s)
	y, okY := exactly(a)
	if !okX || !okY {
		return false
	}
	gap := x.Abs(x.Sub(x, y))
	return gap.Cmp(t.exactAbsolute) <= 0 || gap.Cmp(y.Abs(y).Mul(y, t.exactRelative)) <= 0
}

// maxExponent is that of x86's long double, the widest that format's validators know.
const maxExponent = 4932

// exactly reads a number of isNumber's form. Its exponent is bounded, as the fraction has as many digits.
func exactly(s string) (*big.Rat, bool) {
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		if e, err := strconv.Atoi(s[i+1:]); err != nil || e > maxExponent || e < -maxExponent {
			return nil, false
		}
	}
	return new(big.Rat).SetString(s)
}

// isZero reports whether a number has no digit but 0 before its exponent.
func isZero(s string) bool {
	mantissa, _, _ := strings.Cut(strings.ToLower(s), "e")
	return !strings.ContainsAny(mantissa, "123456789")
}
