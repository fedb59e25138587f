device = 'pthread-skylake-avx512-AMD EPYC'
peer = 'OpenBLAS 0.3.21 sgemm for Cooperlake'
peer_ms = 13.5175
peak = 496.59
blocks = '64 16'
# fig5.png: throughput in operations of the dense product over the sparsity, for the layers of
# ResMLP-S (Fig. 5 of arXiv 2311.16883). clprune-bench writes device, peer, peer_ms, peak and blocks
# above this text.
set datafile separator ','
set terminal pngcairo size 550 * words(blocks),600 font 'sans,12' noenhanced
set output 'fig5.png'
set multiplot layout 1,words(blocks) title 'dw of the ResMLP layers on '.device
set grid ytics lc rgb '#dddddd'
set key below
set xlabel 'sparsity'
set ylabel 'dense-equivalent GFLOP/s'
set xrange [0:1]
set yrange [0:*]
layers = 'fc1 fc2 token'
colours = '#1f77b4 #2ca02c #ff7f0e'
is_peer = strlen(peer) > 0
do for [b in blocks] {
    set title 'b = '.b
    plot for [i=1:3] 'fig5.csv' using 'sparsity': \
            (column('block') == b + 0 && strcol('layer') eq word(layers, i) ? \
            column('gflops') : NaN) \
            with linespoints lw 2 pt 7 ps 0.8 lc rgb word(colours, i) title word(layers, i), \
        for [i=1:3] 'fig5.csv' using 'sparsity': \
            (is_peer && column('block') == b + 0 && strcol('layer') eq word(layers, i) ? \
            column('peer_gflops') : NaN) \
            with lines lw 2 dt 2 lc rgb word(colours, i) \
            title (is_peer ? word(layers, i).', '.word(peer, 1) : ''), \
        peak > 0 ? peak : NaN with lines lw 2 lc rgb '#d62728' title 'FMA peak'
}
unset multiplot
