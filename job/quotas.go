package job

import (
	"fmt"
	"strconv"
	"strings"
)

// field is one of Quotas by its JSON name.
type quotaField struct {
	name  string
	value *int64
	most  int64
}

func (q *Quotas) fields() []quotaField {
	return []quotaField{
		{"requests_per_minute", &q.RequestsPerMinute, maxRate},
		{"jobs_queued", &q.JobsQueued, maxQuota},
		{"bytes_queued", &q.BytesQueued, maxQuota},
		{"bytes_stored", &q.BytesStored, maxQuota},
		{"bytes_recorded", &q.BytesRecorded, maxQuota},
		{"running_at_once", &q.RunningAtOnce, maxQuota},
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
	fields := q.fields()
words:
	for _, word := range strings.FieldsFunc(s, func(c rune) bool { return c == ',' || c == ' ' }) {
		name, number, _ := strings.Cut(word, "=")
		for _, f := range fields {
			if f.name != name {
				continue
			}
			n, err := strconv.ParseInt(number, 10, 64)
			if err != nil || n < 0 || n > f.most {
				return Quotas{}, fmt.Errorf("%s is %.40q: want 0 (no quota) to %d", name, number, f.most)
			}
			*f.value = n
			continue words
		}
		names := make([]string, len(fields))
		for i, f := range fields {
			names[i] = f.name
		}
		return Quotas{}, fmt.Errorf("there is no quota %.40q: want NAME=NUMBER, NAME one of %s", name, strings.Join(names, ", "))
	}
	return q, nil
}
