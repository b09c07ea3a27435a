package job_test

import (
	"math"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

func TestCost(t *testing.T) {
	t.Parallel()
	all := job.Prices{Run: 200, CPUSecond: 14_000, GiBSecond: 4_500}
	for name, tt := range map[string]struct {
		prices   job.Prices
		usage    job.Usage
		memoryMB int64
		want     int64
	}{
		"no prices":                     {job.Prices{}, job.Usage{WallMS: 1000, CPUMS: 1000}, 256, 0},
		"a run that used nothing":       {all, job.Usage{}, 256, 200},
		"a second of one core in a GiB": {all, job.Usage{WallMS: 1000, CPUMS: 1000}, 1024, 200 + 14_000 + 4_500},
		"a 40 ms hello in 256 MiB":      {all, job.Usage{WallMS: 40, CPUMS: 25}, 256, 200 + 350 + 45},
		"memory is what is reserved":    {job.Prices{GiBSecond: 4_500}, job.Usage{WallMS: 1000, MemoryPeakBytes: 1 << 40}, 512, 2_250},
		"half up":                       {job.Prices{CPUSecond: 500}, job.Usage{CPUMS: 1}, 256, 1},
		"below half":                    {job.Prices{CPUSecond: 499}, job.Usage{CPUMS: 1}, 256, 0},
		"each part is rounded":          {job.Prices{CPUSecond: 500, GiBSecond: 500}, job.Usage{CPUMS: 1, WallMS: 1}, 1024, 2},
		"beyond 64 bits on the way":     {job.Prices{GiBSecond: 1e15}, job.Usage{WallMS: 300_000}, 2048, 600 * 1e15},
		"beyond 64 bits":                {job.Prices{GiBSecond: 1e15}, job.Usage{WallMS: math.MaxInt64}, math.MaxInt64, math.MaxInt64},
		"a worker that lies":            {all, job.Usage{WallMS: -5, CPUMS: math.MinInt64}, 256, 200},
	} {
		if got := tt.prices.Cost(tt.usage, tt.memoryMB); got != tt.want {
			t.Errorf("%s: got %d, want %d", name, got, tt.want)
		}
	}
}

func TestParsePrices(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]job.Prices{
		"":        {},
		"run=200": {Run: 200},
		"run=200,cpu_second=14000 gib_second=450": {Run: 200, CPUSecond: 14_000, GiBSecond: 450},
		"gib_second=1000000000000000":             {GiBSecond: 1e15},
	} {
		if got, err := job.ParsePrices(text); err != nil || got != want {
			t.Errorf("%q: got %+v, %v, want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"run":                         `run is "": want 0 to`,
		"run=-1":                      `run is "-1": want 0 to 1000000000000000`,
		"run=0.5":                     `run is "0.5"`,
		"cpu_second=1000000000000001": `cpu_second is`,
		"memory=1":                    `there is no price "memory": want NAME=NUMBER, NAME one of run, cpu_second, gib_second`,
	} {
		if got, err := job.ParsePrices(text); err == nil || !strings.Contains(err.Error(), want) || got != (job.Prices{}) {
			t.Errorf("%q: got %+v, %v, want %q", text, got, err, want)
		}
	}
}
