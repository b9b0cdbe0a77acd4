//go:build tools

// Package tools pins the commands that the local control plane builds.
package tools

import (
	_ "go.etcd.io/etcd/server/v3"
)
