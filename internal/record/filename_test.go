package record

import (
	"fmt"
	"testing"
	"time"
)

// A name stands for what it was given last, of its own tenant, as long as somebody asks for it.
func TestFileNames(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	s, ctx := w.Records, t.Context()
	named := func(tenant, name, want string) {
		t.Helper()
		if got, err := s.FileNamed(ctx, tenant, name); err != nil || got != want {
			t.Errorf("%s of %s: got %q, %v, want %q", name, tenant, got, err, want)
		}
	}
	give := func(tenant, name, content string) {
		t.Helper()
		if err := s.NameFile(ctx, tenant, name, content); err != nil {
			t.Fatal(err)
		}
	}
	named("default", "data0001", "")
	give("default", "data0001", "one")
	give("default", "data0002", "two")
	give("default", "data0001", "three")
	named("default", "data0001", "three")
	named("other", "data0001", "")
	give("other", "data0001", "four")
	named("default", "data0001", "three")

	w.forward(nameLife - time.Minute)
	named("default", "data0001", "three") // so it stays for as long again
	w.forward(nameLife + time.Minute)
	named("default", "data0001", "three")
	named("default", "data0002", "")
	if n := s.rdb.HLen(ctx, "gb:{default}:names:of").Val(); n != 1 {
		t.Errorf("%d names are kept, want 1", n)
	}

	w.forward(nameLife + 2*time.Minute)
	for i := range mostNames { // one more than may be
		give("default", fmt.Sprintf("many%04d", i), "five")
	}
	named("default", "data0001", "")
	named("default", "many4095", "five")
	if n := s.rdb.HLen(ctx, "gb:{default}:names:of").Val(); n != mostNames {
		t.Errorf("%d names are kept, want %d", n, mostNames)
	}
	give("default", "many4095", "six") // takes no other's place
	if n := s.rdb.ZCard(ctx, "gb:{default}:names").Val(); n != mostNames {
		t.Errorf("%d names are kept, want %d", n, mostNames)
	}
	if left := s.rdb.PTTL(ctx, "gb:{default}:names").Val(); left <= 0 || left > nameLife {
		t.Errorf("names are kept for %s, want up to %s", left, nameLife)
	}
}
