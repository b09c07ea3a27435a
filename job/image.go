package job

import (
	"regexp"
	"slices"
	"strings"
)

// imageForm is a full name, which no registry's default completes, and a digest: what
// it means never changes.
var imageForm = regexp.MustCompile(`^[a-z0-9]+([.-][a-z0-9]+)*(:[0-9]{1,5})?(/[a-z0-9]+((\.|__?|-+)[a-z0-9]+)*)+@sha256:[0-9a-f]{64}$`)

const (
	maxImage = 512
	// ImageForm says in words what CheckImage wants.
	ImageForm = "name@sha256:…, the full name with its registry or localhost, no tag, and the manifest's digest of 64 hex digits"
)

// CheckImage refuses the name of an image that does not pin one image for ever: it says
// why, or returns "".
func CheckImage(name string) (problem string) {
	switch {
	case len(name) > maxImage:
		return "is longer than 512 bytes"
	case !strings.Contains(name, "@"):
		return "has no digest"
	case !imageForm.MatchString(name):
		return "is not an image pinned by its digest"
	}
	return ""
}

// checkImage checks which program is to run in an image of one's own.
func (s Spec) checkImage(add addFunc, images []string) {
	switch {
	case s.Image == "":
		add("command", nil, "has no image", "args for a runtime, or image beside command")
		return
	case s.Runtime != "":
		add("image", clip(s.Image), "is there beside runtime", "one of the two")
		return
	}
	if problem := CheckImage(s.Image); problem != "" {
		add("image", clip(s.Image), problem, ImageForm)
	} else if !slices.Contains(images, s.Image) {
		add("image", clip(s.Image), "is not allowed by this Glovebox's operator", allowedImages(s.Image, images))
	}
	if len(s.Command) == 0 || s.Command[0] == "" {
		add("command", nil, "names no program", "the program and its arguments, such as [\"/bin/tool\", \"-v\"]")
	}
	if len(s.Args) > 0 {
		add("args", len(s.Args), "is there beside image", "the arguments in command, behind the program")
	}
	switch {
	case s.Source != "" && s.Entrypoint == "":
		add("entrypoint", nil, "is missing", "the name of the file that source becomes")
	case s.Source == "" && s.Entrypoint != "":
		add("entrypoint", clip(s.Entrypoint), "names no source", "the file's name in command")
	}
}

// allowedImages are the images to name instead, those of the same name first, and no
// more of them than a reader takes in.
func allowedImages(image string, images []string) string {
	const most = 4
	if len(images) == 0 {
		return "no image; name a runtime instead"
	}
	name, _, _ := strings.Cut(image, "@")
	var same, others []string
	for _, i := range images {
		if strings.HasPrefix(i, name+"@") {
			same = append(same, i)
		} else {
			others = append(others, i)
		}
	}
	list := append(same, others...)
	if len(list) > most {
		list = append(list[:most], "… (GET /v1/runtimes lists them all)")
	}
	return strings.Join(list, ", ")
}
