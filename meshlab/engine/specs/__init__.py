"""Specs: device counts and layout text come in; out go meshes, layouts, and how one value is sharded on a mesh."""
