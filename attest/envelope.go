package attest

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/glovebox-run/glovebox/job"
)

// PayloadType is what an in-toto statement is called in an envelope.
const PayloadType = "application/vnd.in-toto+json"

const (
	// maxPayload bounds a statement: hundreds of artifacts with long names.
	maxPayload    = 4 << 20
	maxSignatures = 8
)

// Why a result does not verify. Errors of [Verify] wrap one of them.
var (
	ErrUnsigned    = errors.New("there is no attestation")
	ErrMalformed   = errors.New("the attestation is malformed")
	ErrUnknownKey  = errors.New("no key that is trusted here signed the attestation")
	ErrSignature   = errors.New("the signature is wrong")
	ErrChanged     = errors.New("the result is not the one that was attested")
	ErrNotReleased = errors.New("it is not of the release")
)

// pae is DSSE's pre-authentication encoding: what is signed in the place of a payload,
// so that it can't be taken for one of another type.
func pae(payloadType string, payload []byte) []byte {
	b := make([]byte, 0, len(payloadType)+len(payload)+32)
	b = append(b, "DSSEv1 "...)
	b = strconv.AppendInt(b, int64(len(payloadType)), 10)
	b = append(b, ' ')
	b = append(b, payloadType...)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(len(payload)), 10)
	b = append(b, ' ')
	return append(b, payload...)
}

// seal signs a payload.
func seal(s *Signer, payloadType string, payload []byte) job.Attestation {
	sig := ed25519.Sign(s.private, pae(payloadType, payload))
	return job.Attestation{
		PayloadType: payloadType,
		Payload:     base64.StdEncoding.EncodeToString(payload),
		Signatures:  []job.Signature{{KeyID: s.key.ID, Sig: base64.StdEncoding.EncodeToString(sig)}},
	}
}

// open returns the payload of an envelope that one of the keys signed, and that key.
// Nothing of the payload is looked at before its signature is found right.
func open(a job.Attestation, keys []Key) ([]byte, Key, error) {
	switch {
	case a.PayloadType != PayloadType:
		return nil, Key{}, fmt.Errorf("%w: its payload is %.60q, want %q", ErrMalformed, a.PayloadType, PayloadType)
	case len(a.Payload) > base64.StdEncoding.EncodedLen(maxPayload):
		return nil, Key{}, fmt.Errorf("%w: its payload is larger than %d bytes", ErrMalformed, maxPayload)
	case len(a.Signatures) == 0 || len(a.Signatures) > maxSignatures:
		return nil, Key{}, fmt.Errorf("%w: it has %d signatures, want 1 to %d", ErrMalformed, len(a.Signatures), maxSignatures)
	}
	payload, err := decode(a.Payload)
	if err != nil {
		return nil, Key{}, fmt.Errorf("%w: its payload: %w", ErrMalformed, err)
	}
	signed := pae(PayloadType, payload)
	why := ErrUnknownKey
	for _, s := range a.Signatures {
		sig, err := decode(s.Sig)
		if err != nil {
			return nil, Key{}, fmt.Errorf("%w: a signature: %w", ErrMalformed, err)
		}
		for _, k := range keys {
			if s.KeyID != "" && s.KeyID != k.ID {
				continue // the hint saves time; a lie gains nothing but a refusal
			}
			if len(k.PublicKey) == ed25519.PublicKeySize && ed25519.Verify(k.PublicKey, signed, sig) {
				return payload, k, nil
			}
			if s.KeyID != "" {
				why = ErrSignature
			}
		}
	}
	return nil, Key{}, why
}

// decode reads base64 of either alphabet, as DSSE demands.
func decode(s string) ([]byte, error) {
	encoding := base64.StdEncoding
	if strings.ContainsAny(s, "-_") {
		encoding = base64.URLEncoding
	}
	b, err := encoding.DecodeString(s)
	if err != nil {
		return nil, fmt.Errorf("read base64: %w", err)
	}
	return b, nil
}
