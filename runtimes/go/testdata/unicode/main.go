package main

import (
	"bufio"
	"fmt"
	"os"
	"unicode/utf8"
)

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Scan()
	fmt.Println(in.Text(), utf8.RuneCountInString(in.Text()))
}
