package tools_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/producertest"
	"github.com/glovebox-run/glovebox/producer/tools"
)

// TestWriteFile: a text of any size is accepted, though an execution itself has 64 KiB at most. No worker does it in time.
func TestWriteFile(t *testing.T) {
	t.Parallel()
	env := producertest.New(t, "")
	env.Runtimes(t)
	x, err := env.Client.StartSession(t.Context(), job.SessionSettings{Runtime: "python"})
	if err != nil {
		t.Fatal(err)
	}
	tool, err := tools.Find(tools.WriteFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1, 16 << 10, 200 << 10} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			t.Parallel()
			arguments, err := json.Marshal(map[string]string{"session_id": x.ID, "path": "a.txt", "content": strings.Repeat("\n", size)})
			if err != nil {
				t.Fatal(err)
			}
			answer, err := tool.Call(t.Context(), tools.Caller{Glovebox: env.Client, MaxWait: 3 * time.Second}, arguments)
			if err != nil || !answer.IsError || !strings.Contains(answer.Content[0].Text, "turn did not come in time") {
				t.Errorf("%d bytes: got %+v, %v, want that it waited for its turn", size, answer, err)
			}
		})
	}
}
