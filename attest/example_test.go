package attest_test

import (
	"fmt"
	"os"

	"github.com/glovebox-run/glovebox/attest"
	"github.com/glovebox-run/glovebox/job"
)

// A receiver that keeps results verifies them with a copy of GET /v1/keys.
func ExampleVerify() {
	keys, err := attest.ParseKeys([]byte(`{"keys":[{
		"id": "21fe31dfa154a261626bf854046fd227",
		"algorithm": "ed25519",
		"public_key": "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="
	}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	stored, err := os.ReadFile("testdata/result.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := attest.ParseResult(stored)
	if err != nil {
		fmt.Println(err)
		return
	}
	verified, err := attest.Verify(result, keys)
	fmt.Println(verified.Statement.Predicate.Limits.MemoryMB, "MiB,", err)

	result.Status = job.Succeeded
	_, err = attest.Verify(result, keys)
	fmt.Println(err)
	// Output:
	// 2048 MiB, <nil>
	// the result is not the one that was attested: status
}

// Whoever submitted a job knows the hash of its input.
func ExampleInputHash() {
	fmt.Println(attest.InputHash(job.Spec{Runtime: "python", Source: "print(1)"}))
	// Output: b6f041b7e94e437ac3a2b0fe93294a95e262d419b7a804f97245b90b89adb12d <nil>
}
