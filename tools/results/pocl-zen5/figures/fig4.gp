device = 'pthread-skylake-avx512-AMD EPYC'
peer = 'OpenBLAS 0.3.21 sgemm for Cooperlake'
peer_ms = 9.82813
peak = 496.59
blocks = '4 8 16 32 64 128'
# fig4.png: latency of the weight gradient over the sparsity for each block size (Fig. 4 of arXiv
# 2311.16883). clprune-bench writes device, peer, peer_ms, peak and blocks above this text.
set datafile separator ','
set terminal pngcairo size 900,600 font 'sans,12' noenhanced
set output 'fig4.png'
set grid ytics lc rgb '#dddddd'
set key below
set title "dw = dy^T * x with x of 196 x 384 a sample\n".device
set xlabel 'sparsity'
set ylabel 'latency (ms)'
set xrange [0:1]
set yrange [0:*]
is_peer = strlen(peer) > 0
plot for [i=1:words(blocks)] 'fig4.csv' using 'sparsity': \
        (column('block') == word(blocks, i) + 0 ? column('ms') : NaN) \
        with linespoints lw 2 pt 7 ps 0.8 lt i title 'b = '.word(blocks, i), \
    'fig4.csv' using 'sparsity': \
        (column('block') == word(blocks, 1) + 0 ? column('dense_ms') : NaN) \
        with lines lw 2 dt 2 lc rgb '#333333' title 'dense, clprune', \
    is_peer ? peer_ms : NaN with lines lw 2 lc rgb '#d62728' title (is_peer ? peer : '')
