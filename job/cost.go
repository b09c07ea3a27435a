package job

import (
	"math"
	"math/big"
)

// Prices are what an operator charges for a job, each in billionths (nano-units) of the
// operator's currency: a short job costs less than a millionth of one.
type Prices struct {
	// Run is for each job that ran.
	Run int64
	// CPUSecond is for a second of CPU time.
	CPUSecond int64
	// GiBSecond is for a GiB of memory that is reserved (limits.memory_mb) for a second of
	// wall-clock time.
	GiBSecond int64
}

// maxPrice is a million of the currency.
const maxPrice = 1e15

func (p *Prices) fields() []numberField {
	return []numberField{{"run", &p.Run, maxPrice}, {"cpu_second", &p.CPUSecond, maxPrice}, {"gib_second", &p.GiBSecond, maxPrice}}
}

// ParsePrices reads prices as words with commas or blanks between: "run=200,cpu_second=14000,gib_second=4500".
// What is not named costs nothing.
func ParsePrices(s string) (Prices, error) {
	var p Prices
	if err := parseNumbers(s, "price", "0", p.fields()); err != nil {
		return Prices{}, err
	}
	return p, nil
}

// Cost is what a job costs that ran with so many MiB of memory and used that, in billionths of the
// currency. CPU time and memory are rounded half up, each for itself, so that a bill which
// lists both adds up. A cost beyond an int64 is the largest one.
func (p Prices) Cost(u Usage, memoryMB int64) int64 {
	total := big.NewInt(p.Run)
	total.Add(total, charge(p.CPUSecond, 1000, u.CPUMS))
	total.Add(total, charge(p.GiBSecond, 1024*1000, memoryMB, u.WallMS))
	if !total.IsInt64() {
		return math.MaxInt64
	}
	return total.Int64()
}

// charge is a price times the quantities, in units of the price: 1000 ms of a second's.
func charge(price, unit int64, quantities ...int64) *big.Int {
	n := big.NewInt(price)
	for _, q := range quantities {
		n.Mul(n, big.NewInt(max(q, 0))) // a worker says what was used
	}
	n.Add(n, big.NewInt(unit/2))
	return n.Div(n, big.NewInt(unit))
}
