package job

// Attestation is a signed statement about a [Result]: an in-toto statement in a DSSE
// envelope, whose field names are DSSE's. Package attest makes and verifies it.
type Attestation struct {
	// PayloadType is "application/vnd.in-toto+json".
	PayloadType string `json:"payloadType"`
	// Payload is the statement's JSON in base64.
	Payload    string      `json:"payload"`
	Signatures []Signature `json:"signatures"`
}

// Signature is one signature of an [Attestation].
type Signature struct {
	// KeyID names the key among those of GET /v1/keys. It is a hint: nothing signs it.
	KeyID string `json:"keyid,omitempty"`
	// Sig is an Ed25519 signature in base64.
	Sig string `json:"sig"`
}
