package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"

	"example.com/job/sum"
)

func main() {
	text, err := os.ReadFile("data/in.txt")
	if err != nil {
		panic(err)
	}
	got := sum.Of(strings.Fields(string(text)))
	out, err := json.Marshal(map[string]int{"sum": got, http.MethodGet: http.StatusOK})
	if err != nil {
		panic(err)
	}
	if err := os.WriteFile("out.txt", out, 0o644); err != nil {
		panic(err)
	}
	fmt.Println(got)
}
