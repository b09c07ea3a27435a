package gbtest

import (
	"flag"
	"runtime"
	"strconv"
)

// ManyWait has half as many tests again run at once as there are processors, unless the command line says how many: for a package whose
// tests wait for most of their time. A TestMain calls it.
func ManyWait() {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		n := runtime.GOMAXPROCS(0)
		f.Value.Set(strconv.Itoa(n + (n+1)/2)) //nolint:errcheck // it is a number
	}
}
