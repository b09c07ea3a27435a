package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/sessionfiles"
)

func (a *app) sessionFilesCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "files ID [DIR]",
		Short: "List the files of a session",
		Long: `List what a directory of a session holds, its own by default. It waits for what the session was
given before, as "session get", "put", "mkdir" and "rm" do: each is an execution of the session.`,
		Example: `  glovebox session files default-s-abc…
  glovebox session files default-s-abc… data/raw`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := ""
			if len(args) == 2 && args[1] != "." {
				dir = path.Clean(args[1])
			}
			return a.withJobs(func(sessions *producer.Client) error {
				list, err := allFiles(cmd.Context(), sessions, args[0], dir)
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(list)
				}
				w := a.table()
				fmt.Fprintln(w, "NAME\tKIND\tSIZE\tPROBLEM")
				for _, f := range list.Files {
					fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", plain(f.Name), plain(f.Kind), f.Size, plain(f.Problem))
				}
				return w.Flush()
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// maxFilePages bounds how much of a directory is listed.
const maxFilePages = 200

// allFiles lists a directory page by page. Next is set where there is more.
func allFiles(ctx context.Context, c sessionfiles.Client, id, dir string) (job.FileList, error) {
	all := job.FileList{Files: []job.FileEntry{}}
	for range maxFilePages {
		page, err := sessionfiles.List(ctx, c, id, dir, all.Next)
		if err != nil {
			return all, err
		}
		all.Files, all.Next = append(all.Files, page.Files...), page.Next
		if all.Next == "" {
			break
		}
	}
	return all, nil
}

func (a *app) sessionGetCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "get ID NAME",
		Short: "Print a file of a session",
		Long:  `Print a file of a session, or write it to a file here. A link is not followed.`,
		Example: `  glovebox session get default-s-abc… result.csv
  glovebox session get --out plot.png default-s-abc… out/plot.png`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(func(sessions *producer.Client) error {
				return a.getSessionFile(cmd.Context(), sessions, args[0], args[1], out)
			})
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "write it to `FILE`, which must not be there yet")
	return cmd
}

func (a *app) getSessionFile(ctx context.Context, c sessionfiles.Client, id, name, out string) (err error) {
	execution, _, err := sessionfiles.Read(ctx, c, id, name)
	if err != nil {
		return err
	}
	from, err := c.Open(ctx, execution, producer.ArtifactPath(name))
	if err != nil {
		return err
	}
	defer from.Close()
	if out == "" {
		_, err = io.Copy(untrusted(a.stdout), from)
		return err
	}
	to, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	if _, err = io.Copy(to, from); err == nil {
		err = to.Close()
	}
	if err != nil {
		to.Close()
		os.Remove(out)
	}
	return err
}

func (a *app) sessionPutCommand() *cobra.Command {
	var o specOptions // its files
	return &cobra.Command{
		Use:   "put ID [NAME=]PATH…",
		Short: "Put files into a session",
		Long: `Put files into a session's directory, each in the place of what has its name. A large one is
uploaded first. NAME may hold slashes; it is the last part of PATH by default.`,
		Example: `  glovebox session put default-s-abc… data.csv
  glovebox session put default-s-abc… in/data.csv=~/data.csv`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.files = args[1:]
			return a.withFiles(cmd.Context(), &o, func(sessions *producer.Client, files []job.File) error {
				return sessionfiles.Put(cmd.Context(), sessions, args[0], files...)
			})
		},
	}
}

// withFiles reads the files that o names, uploads what is too large to go along, and does something with all of them in a session.
func (a *app) withFiles(ctx context.Context, o *specOptions, do func(sessions *producer.Client, files []job.File) error) error {
	large := o.takeLarge(uploadForSession)
	files, err := a.filesOf(nil, o.files)
	if err != nil {
		return err
	}
	return a.withJobs(func(sessions *producer.Client) error {
		uploaded, err := a.upload(ctx, sessions, large)
		if err != nil {
			return err
		}
		return do(sessions, append(files, uploaded...))
	})
}

func (a *app) sessionMkdirCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "mkdir ID NAME",
		Short:   "Make a directory in a session",
		Long:    `Make a directory in a session, and those above it, unless they are there.`,
		Example: `  glovebox session mkdir default-s-abc… data/raw`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(func(sessions *producer.Client) error {
				return sessionfiles.MakeDirectory(cmd.Context(), sessions, args[0], args[1])
			})
		},
	}
}

func (a *app) sessionRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "rm ID NAME",
		Short:   "Delete a file of a session",
		Long:    `Delete a file of a session, a link itself, or a directory that is empty.`,
		Example: `  glovebox session rm default-s-abc… data/raw/old.csv`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(func(sessions *producer.Client) error {
				return sessionfiles.Delete(cmd.Context(), sessions, args[0], args[1])
			})
		},
	}
}
