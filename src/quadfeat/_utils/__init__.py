"""Small parts that every folder uses: validation, seeds, snapshots, lazy attributes."""
