package main

import (
	"fmt"
	"os"
	"strings"
)

func main() {
	sum, n := 0, 0
	for {
		if _, err := fmt.Scan(&n); err != nil {
			break
		}
		sum += n
	}
	fmt.Println(sum, strings.Join(os.Args[1:], " "))
}
