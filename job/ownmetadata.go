package job

import (
	"maps"
	"slices"
)

// ownKeys are what Glovebox itself writes into metadata, to say where a job or a run comes from.
var ownKeys = []string{TemplateKey, HookKey, DeliveryKey, ScheduleKey, FireKey, RunKey, StepKey, RegradeKey}

// OwnMetadata is a fault for each key of metadata that somebody gives which is Glovebox's: it would tell a lie of where a job comes from. A [Spec] is
// not asked, as what a template, a hook or a step makes has them.
func OwnMetadata[V any](metadata map[string]V) (errs Invalid) {
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		if slices.Contains(ownKeys, key) {
			errs = append(errs, FieldError{"metadata." + key, nil, "is Glovebox's", "another name"})
		}
	}
	return errs
}
