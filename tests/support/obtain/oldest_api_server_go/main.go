// The part of the oldest supported API server that decides which CustomResourceDefinitions it accepts.
//
// Usage:
//
//	oldest-api-server functions NAME...
//	oldest-api-server check FILE...
//
// `functions` prints, one a line, each of the names that rules of a new CustomResourceDefinition may not call as a CEL
// function. `check` prints a JSON object for each error that the API server finds in the files: syntax, types,
// functions, and estimated costs, whose estimator differs from version to version.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/cel/environment"
)

type finding struct {
	File  string `json:"file"`
	Field string `json:"field"`
	Error string `json:"error"`
}

func main() {
	switch {
	case len(os.Args) > 2 && os.Args[1] == "functions":
		functions(os.Args[2:])
	case len(os.Args) > 2 && os.Args[1] == "check":
		if err := check(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	default:
		fmt.Fprintln(os.Stderr, "usage: oldest-api-server functions NAME... | check FILE...")
		os.Exit(2)
	}
}

func functions(names []string) {
	// Version 1.N accepts a new rule only if 1.(N-1) has its functions, so that the server can be rolled back.
	allowed := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion(), true).NewExpressionsEnv()
	for _, name := range names {
		// A function that exists has no overload for this call, and that is another error.
		_, issues := allowed.Compile(name + "(0, 0, 0, 0)")
		if issues == nil || strings.Contains(issues.String(), "undeclared reference") {
			fmt.Println(name)
		}
	}
}

func check(files []string) error {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	// Decoding sets the defaults that the API server sets.
	decoder := serializer.NewCodecFactory(scheme).UniversalDecoder(apiextensions.SchemeGroupVersion)
	out := json.NewEncoder(os.Stdout)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		found, _, err := decoder.Decode(text, nil, &apiextensions.CustomResourceDefinition{})
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		definition, fits := found.(*apiextensions.CustomResourceDefinition)
		if !fits {
			return fmt.Errorf("%s is not a CustomResourceDefinition", file)
		}
		// The API server notes the stored version before it validates.
		definition.Status.StoredVersions = []string{definition.Spec.Versions[0].Name}
		for _, problem := range validation.ValidateCustomResourceDefinition(context.Background(), definition) {
			if err := out.Encode(finding{filepath.Base(file), problem.Field, problem.Detail}); err != nil {
				return err
			}
		}
	}
	return nil
}
