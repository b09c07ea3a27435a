package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// twinAnnotation holds the name of a flag's environment variable, where it is not
// GLOVEBOX_ and the flag's own name.
const twinAnnotation = "glovebox-env"

// twin names the environment variable of a flag.
func twin(f *pflag.Flag) string {
	if name := f.Annotations[twinAnnotation]; len(name) == 1 {
		return name[0]
	}
	return "GLOVEBOX_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
}

// setTwin names the environment variable of a flag of cmd.
func setTwin(cmd *cobra.Command, flag, variable string) {
	if err := cmd.Flags().SetAnnotation(flag, twinAnnotation, []string{variable}); err != nil {
		panic(err) // no such flag: a programmer's mistake
	}
}

// nameTwins adds to the help of each flag which variable it can come from.
func nameTwins(cmd *cobra.Command) {
	add := func(f *pflag.Flag) {
		if f.Name != "help" && !strings.Contains(f.Usage, " [$") {
			f.Usage += " [$" + twin(f) + "]"
		}
	}
	cmd.LocalFlags().VisitAll(add)
	for _, c := range cmd.Commands() {
		nameTwins(c)
	}
}

// fromEnvironment sets the flags that the command line didn't from the environment. A
// flag that can be given several times has one value a line there.
func (a *app) fromEnvironment(cmd *cobra.Command) error {
	var err error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		value := a.getenv(twin(f))
		if f.Changed || value == "" || err != nil || f.Name == "help" || f.Name == "url" { // config.FindClient reads that one
			return
		}
		values := []string{value}
		if _, several := f.Value.(pflag.SliceValue); several {
			values = strings.Split(strings.TrimSuffix(value, "\n"), "\n")
		}
		for _, v := range values {
			if setErr := cmd.Flags().Set(f.Name, v); setErr != nil {
				err = usagef("%s: %v", twin(f), setErr)
			}
		}
	})
	return err
}
