package job

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Bounds of labels.
const (
	// MaxLabels is how many a worker has at most, MaxPlacement how many a placement names.
	MaxLabels    = 16
	MaxPlacement = 8
	// MaxLabelPart is how long a label's key is at most, and its value, bytes.
	MaxLabelPart = 63
)

const (
	keysAllowed   = "1 to 63 lower-case letters, digits, -, _ and ., beginning with a letter"
	valuesAllowed = "1 to 63 letters, digits, -, _ and ., beginning with a letter or a digit"
)

// Labels say what a worker is, as its operator declared, or which of them a job wants of its worker: its placement.
type Labels map[string]string

// String is the one way in which they are written: key=value, in the order of the keys, with commas. "" for none.
func (l Labels) String() string {
	words := make([]string, 0, len(l))
	for _, key := range slices.Sorted(maps.Keys(l)) {
		words = append(words, key+"="+l[key])
	}
	return strings.Join(words, ",")
}

// ParseLabels reads what [Labels.String] writes, in any order: most labels at most. "" is none.
func ParseLabels(s string, most int) (Labels, error) {
	if s == "" {
		return nil, nil
	}
	l := Labels{}
	for _, word := range strings.SplitN(s, ",", most+1) {
		key, value, ok := strings.Cut(word, "=")
		if !ok {
			return nil, fmt.Errorf("%.100q is no label: want key=value, with commas between them", word)
		}
		if _, twice := l[key]; twice {
			return nil, fmt.Errorf("%.100q appears more than once", key)
		}
		l[key] = value
	}
	var errs Invalid
	l.check(func(field string, value any, message, allowed string) {
		errs = append(errs, FieldError{field, value, message, allowed})
	}, "labels", most)
	if errs != nil {
		return nil, errs
	}
	return l, nil
}

// ParseLabelKeys reads keys of labels, with commas between them. "" is none.
func ParseLabelKeys(s string) ([]string, error) {
	if s == "" {
		return nil, nil
	}
	keys := strings.SplitN(s, ",", MaxLabels+1)
	if len(keys) > MaxLabels {
		return nil, fmt.Errorf("there are more than %d keys", MaxLabels)
	}
	for i, key := range keys {
		if !isLabelKey(key) {
			return nil, fmt.Errorf("%.100q is no key of a label: want %s", key, keysAllowed)
		}
		if slices.Contains(keys[:i], key) {
			return nil, fmt.Errorf("%q appears more than once", key)
		}
	}
	return keys, nil
}

func (l Labels) check(add addFunc, field string, most int) {
	if len(l) > most {
		add(field, len(l), "has too many labels", fmt.Sprintf("0 to %d", most))
		return
	}
	for _, key := range slices.Sorted(maps.Keys(l)) {
		if !isLabelKey(key) {
			add(field, clip(key), "has a key that is none", keysAllowed)
		} else if !isLabelValue(l[key]) {
			add(field+"."+key, clip(l[key]), "is no value of a label", valuesAllowed)
		}
	}
}

// Serves reports whether a worker with these labels runs jobs of that placement: it has all labels that the placement names, and the
// placement names all keys in only.
func (l Labels) Serves(placement Labels, only []string) bool {
	for key, value := range placement {
		if has, ok := l[key]; !ok || has != value {
			return false
		}
	}
	for _, key := range only {
		if _, named := placement[key]; !named {
			return false
		}
	}
	return true
}

// With are these labels and those of more. clash is a key that both have, with another value; "" for none.
func (l Labels) With(more Labels) (both Labels, clash string) {
	if len(more) == 0 {
		return l, ""
	}
	both = make(Labels, len(l)+len(more))
	maps.Copy(both, l)
	for _, key := range slices.Sorted(maps.Keys(more)) {
		if has, ok := both[key]; ok && has != more[key] {
			return l, key
		}
		both[key] = more[key]
	}
	return both, ""
}

func isLabelKey(s string) bool {
	return labelPart(s) && s[0] >= 'a' && s[0] <= 'z' && strings.ToLower(s) == s
}

func isLabelValue(s string) bool { return labelPart(s) && !strings.ContainsRune("-_.", rune(s[0])) }

func labelPart(s string) bool {
	return s != "" && len(s) <= MaxLabelPart && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
	})
}
