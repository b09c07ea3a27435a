package job

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// numberField is a number in a struct, by its name in JSON and in settings.
type numberField struct {
	name  string
	value *int64
	most  int64
}

func (q *Quotas) fields() []numberField {
	return []numberField{
		{"requests_per_minute", &q.RequestsPerMinute, maxRate},
		{"jobs_queued", &q.JobsQueued, maxQuota},
		{"bytes_queued", &q.BytesQueued, maxQuota},
		{"bytes_stored", &q.BytesStored, maxQuota},
		{"bytes_recorded", &q.BytesRecorded, maxQuota},
		{"running_at_once", &q.RunningAtOnce, maxQuota},
		{"sessions", &q.Sessions, maxQuota},
	}
}

// Or returns q with the quotas of other where q has none.
func (q Quotas) Or(other Quotas) Quotas {
	others := other.fields()
	for i, f := range q.fields() {
		if *f.value == 0 {
			*f.value = *others[i].value
		}
	}
	return q
}

// ParseQuotas reads quotas as words with commas or blanks between: "jobs_queued=1000,bytes_stored=0".
func ParseQuotas(s string) (Quotas, error) {
	var q Quotas
	if err := parseNumbers(s, "quota", "0 (no quota)", q.fields()); err != nil {
		return Quotas{}, err
	}
	return q, nil
}

// parseNumbers reads NAME=NUMBER, with commas or blanks between, into fields. what is what one
// of them is called, zero what 0 means.
func parseNumbers(s, what, zero string, fields []numberField) error {
	for _, word := range strings.FieldsFunc(s, func(c rune) bool { return c == ',' || c == ' ' }) {
		name, number, _ := strings.Cut(word, "=")
		i := slices.IndexFunc(fields, func(f numberField) bool { return f.name == name })
		if i < 0 {
			names := make([]string, len(fields))
			for i, f := range fields {
				names[i] = f.name
			}
			return fmt.Errorf("there is no %s %.40q: want NAME=NUMBER, NAME one of %s", what, name, strings.Join(names, ", "))
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n < 0 || n > fields[i].most {
			return fmt.Errorf("%s is %.40q: want %s to %d", name, number, zero, fields[i].most)
		}
		*fields[i].value = n
	}
	return nil
}
