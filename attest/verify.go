package attest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/glovebox-run/glovebox/job"
)

// Verified is what a result that verifies was attested to be.
type Verified struct {
	Statement Statement
	// Key is the one that signed it.
	Key Key
}

// Verify checks that one of the keys signed the result's attestation, that every
// attested field of the result is as it was then, and that the hashes are those of what
// is attested. It fails with an error that wraps ErrUnsigned, ErrMalformed,
// ErrUnknownKey, ErrSignature or ErrChanged.
//
// Which job it is, the caller has to compare: a result of another job verifies too.
func Verify(r job.Result, keys []Key) (Verified, error) {
	if r.Attestation == nil {
		return Verified{}, ErrUnsigned
	}
	payload, key, err := open(*r.Attestation, keys)
	if err != nil {
		return Verified{}, err
	}
	var s Statement
	if err := json.Unmarshal(payload, &s); err != nil {
		return Verified{}, fmt.Errorf("%w: its statement: %w", ErrMalformed, err)
	}
	switch {
	case s.Type != StatementType || s.PredicateType != PredicateType:
		return Verified{}, fmt.Errorf("%w: it states %.80q, want %q of %q", ErrMalformed, s.PredicateType, PredicateType, StatementType)
	case len(s.Subject) != 1:
		return Verified{}, fmt.Errorf("%w: it has %d subjects, want one", ErrMalformed, len(s.Subject))
	}
	p := s.Predicate
	ran := Run{InputHash: p.InputHash, Limits: p.Limits, Stdout: p.Stdout, Stderr: p.Stderr}
	if p.Session != nil {
		ran.Previous, ran.PreviousSession = p.Session.Previous, p.Session.PreviousSession
	}
	now, err := describe(r, ran)
	if err != nil {
		return Verified{}, err
	}
	now.OutputHash, now.EnvironmentHash = p.OutputHash, p.EnvironmentHash
	if changed, err := differences(p, now); err != nil {
		return Verified{}, err
	} else if len(changed) > 0 {
		return Verified{}, fmt.Errorf("%w: %s", ErrChanged, strings.Join(changed, ", "))
	}
	computed, err := now.hashed()
	if err != nil {
		return Verified{}, err
	}
	if computed.OutputHash != p.OutputHash || computed.EnvironmentHash != p.EnvironmentHash ||
		s.Subject[0] != (Subject{Name: r.ID, Digest: Digest{SHA256: subjectDigest(computed)}}) {
		return Verified{}, fmt.Errorf("%w: its hashes are not those of what it states", ErrMalformed)
	}
	return Verified{Statement: s, Key: key}, nil
}

// differences names the fields in which two predicates differ, as JSON writes them.
func differences(a, b Predicate) ([]string, error) {
	var names []string
	va, vb := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range va.NumField() {
		ja, err := json.Marshal(va.Field(i).Interface())
		if err != nil {
			return nil, fmt.Errorf("compare with what is attested: %w", err)
		}
		jb, err := json.Marshal(vb.Field(i).Interface())
		if err != nil {
			return nil, fmt.Errorf("compare with what is attested: %w", err)
		}
		if !bytes.Equal(ja, jb) {
			name, _, _ := strings.Cut(va.Type().Field(i).Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	return names, nil
}
