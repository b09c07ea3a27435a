package main

import "fmt"

func main() {
	fmt.Println("before")
	panic("on purpose")
}
