// Kstatus reads JSON objects of the Kubernetes API from standard input and writes, for each one, a line of
// JSON with the status that the kstatus library computes. It judges helm_operator.health in a test.
package main

import (
	"encoding/json"
	"errors"
	"io"
	"log"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apijson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

type answer struct {
	Status  string `json:"status,omitempty"`
	Message string `json:"message,omitempty"`
	Error   string `json:"error,omitempty"`
}

func main() {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var raw json.RawMessage
		if err := in.Decode(&raw); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			log.Fatal(err)
		}
		if err := out.Encode(judge(raw)); err != nil {
			log.Fatal(err)
		}
	}
}

func judge(raw []byte) answer {
	var object map[string]any
	if err := apijson.Unmarshal(raw, &object); err != nil { // the API's own reading: whole numbers are int64
		return answer{Error: err.Error()}
	}
	result, err := status.Compute(&unstructured.Unstructured{Object: object})
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Status: result.Status.String(), Message: result.Message}
}
