package direct

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/job"
)

// place returns the placement that a job gets which asks for that one: the labels of the tenant's terms are added. It fails with job.Invalid for
// labels that are kept for other tenants, and for those that no worker has had within a week.
func (v *validator) place(ctx context.Context, asked job.Labels) (job.Labels, error) {
	own := v.terms.Placement
	both, clash := own.With(asked)
	if clash != "" {
		return nil, job.Invalid{{Field: "placement." + clash, Value: asked[clash], Message: "is not what the operator has tied this tenant to", Allowed: own[clash] + ", or nothing"}}
	}
	if len(both) > job.MaxPlacement {
		return nil, job.Invalid{{
			Field: "placement", Value: len(both), Message: "has too many labels, with those that the operator has tied this tenant to",
			Allowed: fmt.Sprintf("%d in all, of which these are %s", job.MaxPlacement, own),
		}}
	}
	if len(both) == len(own) { // it asks for nothing else, and what the operator has tied it to may not be there yet
		return both, nil
	}
	kept, err := v.client.records.KeptLabels(ctx)
	if err != nil {
		return nil, fmt.Errorf("submit job: %w", err)
	}
	for _, key := range slices.Sorted(maps.Keys(asked)) {
		if own[key] != asked[key] && kept[key+"="+asked[key]] {
			return nil, job.Invalid{{Field: "placement." + key, Value: asked[key], Message: "is a label that the operator keeps for other tenants", Allowed: "another, or none"}}
		}
	}
	kinds, err := v.knownKinds(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(kinds, func(w fleet.Slots) bool { return w.Serves(both) }) {
		return nil, job.Invalid{{Field: "placement", Value: both.String(), Message: "has labels that no worker has had within a week, all of them", Allowed: placements(kinds, own, kept)}}
	}
	return both, nil
}

// knownKinds are the kinds of workers that there were within a week. They are read for the first job that names labels.
func (v *validator) knownKinds(ctx context.Context) ([]fleet.Slots, error) {
	if v.kindsRead {
		return v.kinds, nil
	}
	kinds, err := v.client.records.Fleet.Kinds(ctx)
	if err != nil {
		return nil, fmt.Errorf("submit job: %w", err)
	}
	v.kinds, v.kindsRead = kinds, true
	return kinds, nil
}

// placements says which labels the tenant may name, for each kind of workers.
func placements(kinds []fleet.Slots, own job.Labels, kept map[string]bool) string {
	var list []string
	for _, w := range kinds {
		foreign := func(key, value string) bool { return kept[key+"="+value] && own[key] != value }
		may := maps.Clone(w.Labels)
		maps.DeleteFunc(may, foreign)
		barred := slices.ContainsFunc(w.Only, func(key string) bool { return foreign(key, w.Labels[key]) })
		if text := may.String(); !barred && text != "" && !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	if len(list) == 0 {
		return "none: no worker has any"
	}
	return fmt.Sprintf("some of: %.1000s", strings.Join(list, "; "))
}
