// Package check holds the Kubernetes manifest against the types of the API: an unknown
// or misspelt field, or a value of another type, is an error. Nothing is run; see
// ../test-control-plane. It is a module of its own, so that powercut does not depend on them.
package check

import (
	"bytes"
	"os"
	"strings"
	"testing"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func TestManifest(t *testing.T) {
	text, err := os.ReadFile("../nightly.yaml")
	if err != nil {
		t.Fatal(err)
	}
	parts := bytes.Split(text, []byte("\n---\n"))
	if len(parts) != 2 {
		t.Fatalf("%d documents", len(parts))
	}
	var claim core.PersistentVolumeClaim
	if err := yaml.UnmarshalStrict(parts[0], &claim); err != nil {
		t.Fatal(err)
	}
	var job batch.Job
	if err := yaml.UnmarshalStrict(parts[1], &job); err != nil {
		t.Fatal(err)
	}
	spec := job.Spec
	if job.APIVersion != "batch/v1" || job.Kind != "Job" || spec.CompletionMode == nil || *spec.CompletionMode != batch.IndexedCompletion {
		t.Errorf("%s %s, %v: want an Indexed Job", job.APIVersion, job.Kind, spec.CompletionMode)
	}
	// As the API server demands: limits for each index, and failure policies, go with pods that
	// are not restarted in place, and every mount has its volume.
	pod := spec.Template.Spec
	if pod.RestartPolicy != core.RestartPolicyNever {
		t.Errorf("restart policy %s", pod.RestartPolicy)
	}
	c := pod.Containers[0]
	if spec.PodFailurePolicy.Rules[0].OnExitCodes == nil || *spec.PodFailurePolicy.Rules[0].OnExitCodes.ContainerName != c.Name {
		t.Errorf("the failure policy is not about %s", c.Name)
	}
	volumes := map[string]bool{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
		if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName != claim.Name {
			t.Errorf("volume %s wants the claim %s", v.Name, v.PersistentVolumeClaim.ClaimName)
		}
	}
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] {
			t.Errorf("there is no volume %s", m.Name)
		}
	}
	if !strings.Contains(c.Args[0], "--shard $JOB_COMPLETION_INDEX/4 --resume") || *spec.Completions != 4 {
		t.Errorf("%d completions, and %s", *spec.Completions, c.Args[0])
	}
}

// A misspelt field is found, so that the test above can fail.
func TestMisspelt(t *testing.T) {
	var job batch.Job
	if err := yaml.UnmarshalStrict([]byte("spec: {completionmode: Indexed, completion: 4}"), &job); err == nil {
		t.Error("a misspelt field was taken")
	}
}
