// stands in for a layer without sources
